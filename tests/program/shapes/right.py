"""Right programs that a check of shapes may well refuse, each below its name, with what would be assumed wrongly."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

# ---- buffers_replaced
# assumed wrongly: _buffers[...] = ..., buffers()/get_buffer() with resize_() change no attribute of the module
class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return x - self.mean
norm = Norm()
norm._buffers["mean"] = torch.zeros(5)
print(norm(torch.zeros(2, 5)).shape)
norm.get_buffer("mean").resize_(4)
print(norm(torch.zeros(2, 4)).shape)

# ---- compared_by_difference
# assumed wrongly: names of one declaration differ, though `if not len(a) - len(b)` has compared them
def f(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> Tensor:
    if not len(a) - len(b):
        return a + b
    return a
print(f(torch.zeros(2, 3), torch.zeros(2, 3)))

# ---- compared_in_match
# assumed wrongly: names of one declaration differ, though a guard of `match` has compared what its case has bound
def f(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> Tensor:
    match (len(a), len(b)):
        case (n, m) if n == m:
            return a + b
        case _:
            return a
print(f(torch.zeros(2, 3), torch.zeros(2, 3)))

# ---- compared_in_set
# assumed wrongly: names of one declaration differ, though `len({n, m}) > 1` has been asked (also torch._check, assert_close)
def f(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> Tensor:
    if len({a.shape[0], b.shape[0]}) > 1:
        raise ValueError("lengths differ")
    return a + b
def g(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> Tensor:
    torch.testing.assert_close(a, b)
    return a - b
print(f(torch.zeros(2, 3), torch.zeros(2, 3)), g(torch.zeros(2, 3), torch.zeros(2, 3)))

# ---- constant_set_of_module
# assumed wrongly: setattr(sys.modules[__name__], "WIDTH", 5) sets nothing
import sys
WIDTH = 3
setattr(sys.modules[__name__], "WIDTH", 5)
def f(x: Float[Tensor, "N 5"]) -> Tensor:
    return nn.Linear(WIDTH, 2)(x)
print(f(torch.zeros(2, 5)).shape)

# ---- decorator_vmap
# assumed wrongly: @torch.vmap (also torch.func.vmap, jacrev, grad) leaves the parameters and result as they are declared
from torch.func import grad
@torch.vmap
def dot(a: Float[Tensor, "D"], b: Float[Tensor, "D"]) -> Float[Tensor, ""]:
    return (a * b).sum()
@grad
def slope(x: Float[Tensor, "D"]) -> Float[Tensor, ""]:
    return x.pow(2).sum()
def main(x: Float[Tensor, "N D"]) -> None:
    n: Float[Tensor, "N"] = dot(x, x)
    d: Float[Tensor, "D"] = slope(x[0])
    print(n.shape, d.shape)
main(torch.ones(4, 3))

# ---- expected_by_context
# assumed wrongly: a context manager of the program (a class whose __exit__ returns True, or try/yield/except) passes errors on
import contextlib
class Expect:
    def __enter__(self):
        return self
    def __exit__(self, kind, value, traceback) -> bool:
        return kind is RuntimeError
@contextlib.contextmanager
def fails():
    try:
        yield
    except RuntimeError:
        pass
def f(x: Float[Tensor, "N 3"]) -> None:
    with Expect():
        x + torch.zeros(2)
    with fails():
        x @ torch.zeros(4, 2)
f(torch.zeros(2, 3))

# ---- expected_by_exit_stack
# assumed wrongly: stack.enter_context(contextlib.suppress(RuntimeError)) expects nothing
import contextlib
def f(x: Float[Tensor, "N 3"]) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(RuntimeError))
        x + torch.zeros(2)
f(torch.zeros(2, 3))

# ---- expected_by_xfail
# assumed wrongly: a test with @pytest.mark.xfail(raises=RuntimeError) must not fail (pytest says 1 xfailed)
import pytest
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.fc(x)
@pytest.mark.xfail(raises=RuntimeError, strict=True)
def test_wide() -> None:
    Net()(torch.zeros(2, 4))

# ---- getattribute
# assumed wrongly: an attribute is what was set, though the class defines __getattribute__
class P:
    def __init__(self) -> None:
        self.w = torch.zeros(3)
    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        return torch.cat([value, value[:2]]) if name == "w" else value
    def run(self, x: Float[Tensor, "N 5"]) -> Tensor:
        return x + self.w
print(P().run(torch.zeros(2, 5)))

# ---- hook_global
# assumed wrongly: a layer gives what it computes; register_module_forward_hook changes all layers
from torch.nn.modules.module import register_module_forward_hook
register_module_forward_hook(lambda m, a, out: out.squeeze(-1))
def f(x: Float[Tensor, "N 3"], y: Float[Tensor, "N"]) -> Tensor:
    return nn.Linear(3, 1)(x) - y
print(f(torch.zeros(2, 3), torch.zeros(2)))

# ---- hook_of_module
# assumed wrongly: a module gives what forward gives; a forward hook replaces it
class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 1)
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)
critic = Critic()
critic.register_forward_hook(lambda module, args, out: out.squeeze(-1))
def loss(obs: Float[Tensor, "N 3"], ret: Float[Tensor, "N"]) -> Tensor:
    return (critic(obs) - ret).pow(2).mean()
print(loss(torch.zeros(4, 3), torch.zeros(4)))

# ---- hook_through_modules
# assumed wrongly: what self.modules() yields is not the layers of self, so a hook on it changes none of them
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 1)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                m.register_forward_hook(lambda m, a, out: out.squeeze(-1))
    def forward(self, x: Float[Tensor, "N 3"], y: Float[Tensor, "N"]) -> Tensor:
        return self.fc(x) - y
print(Net()(torch.zeros(2, 3), torch.zeros(2)))

# ---- monkeypatched_constant
# assumed wrongly: pytest's monkeypatch.setattr(module, "OBS", 5), and "conf.OBS", sets no constant of a module
import sys
import pytest
OBS = 3
def run(x: Float[Tensor, "N D"]) -> Tensor:
    return nn.Linear(OBS, 2)(x)
def test_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "OBS", 5)
    assert run(torch.zeros(2, 5)).shape == (2, 2)
with pytest.MonkeyPatch.context() as patch:
    test_wide(patch)

# ---- monkeypatched_item
# assumed wrongly: monkeypatch.setitem(CFG, "obs", 6) sets no item of a dict
import pytest
CFG = {"obs": 3}
def run(x: Float[Tensor, "N D"]) -> Tensor:
    return nn.Linear(CFG["obs"], 2)(x)
def test_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CFG, "obs", 6)
    assert run(torch.zeros(2, 6)).shape == (2, 2)
with pytest.MonkeyPatch.context() as patch:
    test_wide(patch)

# ---- parametrization
# assumed wrongly: a layer that register_parametrization() was called with keeps the shape of its weight
from torch.nn.utils import parametrize
class Twice(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return torch.cat([w, w], 0)
def f(x: Float[Tensor, "N 3"]) -> Tensor:
    layer = nn.Linear(3, 2, bias=False)
    parametrize.register_parametrization(layer, "weight", Twice(), unsafe=True)
    return layer(x) + torch.zeros(4)
print(f(torch.zeros(2, 3)).shape)

# ---- prehook_of_module
# assumed wrongly: forward gets what the module is called with; a pre-hook replaces it
class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 1)
        self.register_forward_pre_hook(self.add_time)
    def add_time(self, module, args):
        return (torch.cat([args[0], torch.ones(len(args[0]), 1)], -1),)
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)
critic = Critic()
def values(obs: Float[Tensor, "N 3"]) -> Tensor:
    return critic(obs)
print(values(torch.zeros(4, 3)).shape)

# ---- replaced_in_module_list
# assumed wrongly: setattr(list, "0", layer), and list._modules["0"] = layer, do not change a ModuleList
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 8), nn.Linear(8, 2)])
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
net = Net()
setattr(net.layers, "0", nn.Linear(4, 8))
print(net(torch.zeros(1, 4)).shape)

# ---- replaced_in_modules_dict
# assumed wrongly: an item set of net._modules changes no attribute of net
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 8)
    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)
net = Net()
net._modules["body"] = nn.Linear(4, 8)
def f(x: Float[Tensor, "N 4"]) -> Tensor:
    return net(x)
print(f(torch.zeros(2, 4)).shape)

# ---- replaced_set_submodule
# assumed wrongly: net.set_submodule() of a module of the program changes no attribute (it does for torch's own layers)
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 8)
    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)
net = Net()
net.set_submodule("body", nn.Linear(4, 8))
def f(x: Float[Tensor, "N 4"]) -> Tensor:
    return net(x)
print(f(torch.zeros(2, 4)).shape)

# ---- replaced_through_children
# assumed wrongly: what children(), named_modules() give are not the attributes of the module
class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 8)
    def forward(self, x):
        return self.fc(x)
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Body()
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.body(x)
net = Net()
next(net.children()).fc = nn.Linear(5, 8)
print(net(torch.zeros(2, 5)).shape)
dict(net.named_modules())["body"].fc = nn.Linear(6, 8)
print(net(torch.zeros(2, 6)).shape)

# ---- replaced_through_get_submodule
# assumed wrongly: what net.get_submodule("enc") gives is not net.enc, so nothing of it is changed
class Enc(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 8)
    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = Enc()
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.enc(x)
net = Net()
net.get_submodule("enc").body = nn.Linear(4, 8)
print(net(torch.zeros(2, 4)).shape)

# ---- replaced_through_getattr_loop
# assumed wrongly: `for part in path.split("."): m = getattr(m, part)` reaches no attribute of the module
class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 8)
    def forward(self, x):
        return self.fc(x)
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Body()
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.body(x)
net = Net()
m = net
for part in "body".split("."):
    m = getattr(m, part)
m.fc = nn.Linear(5, 8)
print(net(torch.zeros(2, 5)).shape)

# ---- replaced_through_modules
# assumed wrongly: `for m in net.modules(): m.body = ...` changes nothing of net (model surgery)
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 8)
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.body(x)
net = Net()
for m in net.modules():
    if isinstance(m, Net):
        m.body = nn.Linear(4, 8)
print(net(torch.zeros(2, 4)).shape)

# ---- replaced_through_reduce_getattr
# assumed wrongly: setattr(functools.reduce(getattr, parents, root), name, new) changes nothing of root
import functools
class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 8)
    def forward(self, x):
        return self.fc(x)
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Body()
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.body(x)
def replace(root: nn.Module, path: str, new: nn.Module) -> None:
    *parents, name = path.split(".")
    setattr(functools.reduce(getattr, parents, root), name, new)
net = Net()
replace(net, "body.fc", nn.Linear(5, 8))
print(net(torch.zeros(2, 5)).shape)

# ---- suppress_runtime_error
# assumed wrongly: contextlib.suppress(RuntimeError) does not expect the error
import contextlib
def f(x: Float[Tensor, "N 3"]) -> Tensor:
    with contextlib.suppress(RuntimeError):
        x = x + torch.zeros(2)
    return x
print(f(torch.zeros(2, 3)))

# ---- try_except_runtime_error
# assumed wrongly: what a `try` with `except RuntimeError` (IndexError) tries must not fail
def fit(x: Float[Tensor, "N 3"], w: Float[Tensor, "4 2"]) -> Tensor:
    try:
        return x @ w
    except RuntimeError:
        return x @ w[:3]
def last(x: Float[Tensor, "N D"]) -> Tensor:
    try:
        return x.sum(2)
    except IndexError:
        return x.sum(1)
print(fit(torch.zeros(2, 3), torch.zeros(4, 2)), last(torch.zeros(2, 3)))

# ---- try_in_called_function
# assumed wrongly: a caller that catches RuntimeError does not expect it of the functions that it calls
net = nn.Linear(4, 2)
def inner(x):
    return net(x)
def outer(x: Float[Tensor, "N 3"]) -> Tensor | None:
    try:
        return inner(x)
    except RuntimeError:
        return None
print(outer(torch.zeros(2, 3)))

# ---- type_named_by_text
# assumed wrongly: x.type("torch.FloatTensor") keeps the dtype
from jaxtyping import Int
def f(x: Int[Tensor, "N"]) -> Tensor:
    return x.type("torch.FloatTensor").mean()
print(f(torch.tensor([1, 2])))

# ---- weights_replaced_by_name
# assumed wrongly: .data set of an item of dict(layer.named_parameters()) changes nothing of the layer
def f(x: Float[Tensor, "N 4"]) -> Tensor:
    layer = nn.Linear(3, 8)
    dict(layer.named_parameters())["weight"].data = torch.zeros(8, 4)
    return layer(x)
print(f(torch.zeros(2, 4)).shape)

# ---- weights_replaced_in_parameters_dict
# assumed wrongly: an item set of layer._parameters changes nothing of the layer
def f(x: Float[Tensor, "N 5"]) -> Tensor:
    layer = nn.Linear(3, 2)
    layer._parameters["weight"] = nn.Parameter(torch.zeros(2, 5))
    return layer(x)
print(f(torch.zeros(1, 5)).shape)

# ---- weights_replaced_through_parameters
# assumed wrongly: p.data = ... of what net.parameters() yields changes no layer of net (so does p.set_())
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 8)
    def forward(self, x: Float[Tensor, "N D"]) -> Tensor:
        return self.body(x)
net = Net()
for p in net.parameters():
    if p.dim() == 2:
        p.data = torch.zeros(8, 4)
print(net(torch.zeros(2, 4)).shape)
