"""Bradley-Terry reward model; half of it is annotated."""

import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, convert, validate


class Comparison(BatchRecord):
    """Two completions for each prompt and which one was preferred."""

    ids_a: Tensor
    ids_b: Tensor
    label: Tensor


class RewardNet(nn.Module):
    def __init__(self, vocab, width=12):
        super().__init__()
        self.body = nn.EmbeddingBag(vocab, width)
        self.head = nn.Linear(width, 1)

    def forward(self, ids):
        return self.head(self.body(ids)).squeeze(-1)


def synthesize(n, vocab):
    data = Batch(ids_a=torch.randint(0, vocab, (n, 6)), ids_b=torch.randint(0, vocab, (n, 6)))
    better = (data.ids_a == 1).sum(-1) - (data.ids_b == 1).sum(-1)
    #! misspelt-read: better = (data.ids_a == 1).sum(-1) - (data.id_b == 1).sum(-1)
    data.label = (better + 0.3 * torch.randn(n) > 0).float()
    return data


def loss_fn(net: RewardNet, batch: Comparison) -> tuple[Tensor, Batch]:
    out = Batch(r_a=net(batch.ids_a), r_b=net(batch.ids_b))
    margin = out.r_a - out.r_b
    #! misspelt-read: margin = out.r_a - out.r_c
    loss = nn.functional.binary_cross_entropy_with_logits(margin, batch.label)
    #! old-name: loss = nn.functional.binary_cross_entropy_with_logits(margin, batch.labels)
    out.correct = ((margin > 0).float() == batch.label).float()
    return loss, out


def train(net, comparisons: Comparison, epochs):
    optim = torch.optim.Adam(net.parameters(), lr=5e-2)
    curve = []
    for epoch in range(epochs):
        for mb in comparisons.split(16):
            loss, out = loss_fn(net, mb)
            optim.zero_grad()
            loss.backward()
            optim.step()
        point = Batch(epoch=epoch, loss=loss.item(), acc=out["correct"].mean().item())
        point.margin = (out["r_a"] - out["r_b"]).abs().mean().item()
        curve.append(point)
    log = Batch.stack(curve)
    log.best = log.acc.max()
    #! misspelt-read: log.best = log.accuracy.max()
    return log


def score(net, ids):
    with torch.no_grad():
        rewards = net(ids)
    result = Batch(reward=rewards)
    result.norm = (result.reward - result.reward.mean()) / result.reward.std()
    #! misspelt-read: result.norm = (result.rewards - result.reward.mean()) / result.reward.std()
    return result.to_numpy()


def main() -> None:
    torch.manual_seed(0)
    raw = synthesize(64, 8)
    comparisons = validate(raw, Comparison)
    net = RewardNet(8)
    log = train(net, comparisons, 4)
    #! wrong-argument: log = train(net, comparisons.ids_a, 4)
    shown = [round(float(x), 3) for x in log.margin]
    held_out = Comparison(ids_a=torch.randint(0, 8, (16, 6)), ids_b=torch.randint(0, 8, (16, 6)), label=torch.ones(16))
    #! wrong-type: held_out = Comparison(ids_a=torch.randint(0, 8, (16, 6)), ids_b=torch.randint(0, 8, (16, 6)), label=None)
    loss, _ = loss_fn(net, held_out)
    arrays = convert(held_out, Comparison)
    scores = score(net, arrays.ids_a)
    print(f"{float(log.best):.3f} {shown} {loss.item():.4f} {float(scores['norm'].max()):.3f}")


if __name__ == "__main__":
    main()
