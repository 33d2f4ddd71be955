"""One global configuration that every module reads."""

from typedbatch import Batch

CFG = Batch()


def load() -> None:
    """Fill in the numbers of the paper, scaled down."""
    CFG.gamma = 0.95
    CFG.tau = 0.05
    CFG.lr = 0.01
    CFG.steps = 24
    CFG.warmup = 8
    CFG.net = Batch(hidden=16, layers=1)
    CFG.net.out = 2 * int(CFG.net.layers)
    #! misspelt-nested: CFG.net.out = 2 * int(CFG.net.n_layers)
    CFG.batch = 8
    CFG.capacity = CFG.batch * 20
    #! misspelt-read: CFG.capacity = CFG.batch_size * 20


def override(pairs: list[str]) -> None:
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in CFG:
            raise KeyError(name)
        setattr(CFG, name, type(CFG[name].item())(float(value)))
