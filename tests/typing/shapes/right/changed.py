"""Right programs about layers that are changed after they are made, each below its name."""

import torch
import torch.nn as nn

# ---- changed_augassign
class Net(nn.Module):
    def __init__(self, dim: int, bidirectional: bool = True) -> None:
        super().__init__()
        self.rnn = nn.GRU(dim, dim, bidirectional=bidirectional, batch_first=True)
        self.dim = dim
        if bidirectional:
            self.dim *= 2
        self.head = nn.Linear(self.dim, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        return self.head(y)


print(Net(4)(torch.zeros(2, 5, 4)).shape)

# ---- changed_buffers
class Buf(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.register_buffer("pos", torch.zeros(n))

    def resize(self, n):
        self.register_buffer("pos", torch.zeros(n))

    def forward(self, x):
        return x + self.pos


b = Buf()
b.resize(6)
print(b(torch.zeros(6)).shape)

# ---- changed_call
class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 3)

    def __call__(self, x):
        return super().__call__(x.flatten(1))

    def forward(self, x):
        return self.fc(x)


print(Flat()(torch.zeros(2, 3, 4)).shape)

# ---- changed_conddef
if torch.cuda.is_available():

    def dev(x):
        return x @ torch.zeros(3, 2)
else:

    def dev(x):
        return x @ torch.zeros(4, 2)


print(dev(torch.zeros(1, 4)).shape)

# ---- changed_constant
VOCAB = 10
VOCAB += 2  # special tokens


def f():
    return torch.zeros(VOCAB) + torch.zeros(12)


print(f().shape)

# ---- changed_deco
def flat_input(cls):
    old = cls.forward
    cls.forward = lambda self, x: old(self, x.flatten(1))
    return cls


@flat_input
class Dec(nn.Module):
    def __init__(self):
        super().__init__()
        self.lc = nn.Linear(4, 2)

    def forward(self, x):
        return self.lc(x)


print(Dec()(torch.zeros(3, 2, 2)).shape)

# ---- changed_delitem
class C(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)


c = C()
del c.net[-1]
print((c(torch.zeros(3, 4)) + torch.zeros(8)).shape)
d = C()
seq = d.net
seq[2] = nn.Linear(8, 5)

# ---- changed_diamond
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(x)


class A(Base):
    def __init__(self):
        super().__init__()
        self.extra = nn.Linear(4, 4)


class B(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 16)


class D(A, B):
    pass


print((D()(torch.zeros(2, 8)) + torch.zeros(2, 16)).shape)

# ---- changed_flagapply
class S(nn.Module):
    def __init__(self):
        super().__init__()
        self.flag = False
        self.l = nn.Linear(4, 4)
        self.two = nn.Linear(4, 2)

    def forward(self, x):
        return self.two(x) if self.flag else self.l(x)


b = S()
b.apply(lambda m: setattr(m, "flag", True))
print((b(torch.zeros(1, 4)) + torch.zeros(2)).shape)

# ---- changed_hook
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 3)
        self.fc.register_forward_pre_hook(lambda m, args: (args[0].flatten(1),))

    def forward(self, x):
        return self.fc(x)


print(Net()(torch.zeros(2, 3, 4)).shape)

# ---- changed_inplacehelper
def prep(x: torch.Tensor) -> None:
    x.unsqueeze_(0)


def main() -> None:
    x = torch.zeros(3)
    prep(x)
    print(torch.cat([x, torch.zeros(1, 3)]).shape)

# ---- changed_match
def h(x):
    n = 1
    match x.shape:
        case (n, d):
            pass
        case (n,):
            pass
    return torch.zeros(n, 2) + torch.zeros(6, 2)


print(h(torch.zeros(6, 3)).shape)


def g(x):
    n = 4
    match x.shape:
        case (n, d):
            pass
    return torch.zeros(n) + x[:, 0]


print(g(torch.zeros(6, 3)).shape)

# ---- changed_noiter
import torch.nn.functional as F
def down(x, levels=0):
    for _ in range(levels):
        x = F.max_pool2d(x, 2)
    return x


print(down(torch.zeros(1, 3, 1, 1)).shape)


def diffs(x):
    out = []
    for i in range(1, x.shape[0]):
        out.append(x[1] - x[0])
    return out


print(len(diffs(torch.zeros(1, 3))))


def pipe(x, ws=()):
    for w in ws:
        x = x @ torch.zeros(9, 9)
    return x


print(pipe(torch.zeros(2, 4)).shape)

# ---- changed_otherbuild
def build(m):
    m.size = 6


class W3(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 4
        build(self)
        self.q = nn.Linear(self.size, 3)

    def forward(self, x):
        return self.q(x)


print(W3()(torch.zeros(3, 6)).shape)

# ---- changed_patch
from unittest import mock
class Mk(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = nn.Linear(4, 2)

    def embed(self, x):
        return self.lm(x)

    def forward(self, x):
        return self.embed(x)


with mock.patch.object(Mk, "embed", lambda self, x: x):
    print((Mk()(torch.zeros(3, 9)) + torch.zeros(9)).shape)
p = Mk()
p.forward = lambda x: x
print((p(torch.zeros(2, 9)) + torch.zeros(2, 9)).shape)

# ---- changed_pluseq
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 8)])
        self.layers += [nn.Linear(8, 2)]

    def forward(self, x):
        return self.layers[-1](self.layers[0](x))


print(A()(torch.zeros(2, 4)).shape)

# ---- changed_selfforward
class Choose(nn.Module):
    def __init__(self, flat=False):
        super().__init__()
        self.lin = nn.Linear(12, 3)
        if flat:
            self.forward = self.forward_flat

    def forward(self, x):
        return self.lin(x)

    def forward_flat(self, x):
        return self.lin(x.flatten(1))


print(Choose(True)(torch.zeros(2, 3, 4)).shape)

# ---- changed_selfmethod
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cur = 4
        self.fc1 = self._layer(8)
        self.fc2 = self._layer(16)
        self.head = nn.Linear(self.cur, 5)

    def _layer(self, out):
        made = nn.Linear(self.cur, out)
        self.cur = out
        return made

    def forward(self, x):
        return self.head(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


net = Net()
print(net(torch.zeros(2, 4)).shape)
print(net.head(torch.zeros(2, 16)).shape)

# ---- changed_seqlocal
def main() -> None:
    s = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    s.append(nn.Linear(8, 5))
    print((s(torch.zeros(3, 4)) + torch.zeros(5)).shape)
    t = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    t[1] = nn.Identity()
    print((t(torch.zeros(3, 4)) + torch.zeros(8)).shape)

# ---- changed_setattr
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


net = Net()
for name, child in list(net.named_children()):
    setattr(net, name, nn.Sequential(nn.Flatten(), child))
print(net(torch.zeros(2, 2, 2)).shape)

# ---- changed_shift
def shift(n: int) -> None:
    old = older = oldest = torch.zeros(1, 4)
    for i in range(n):
        oldest, older, old = older, old, torch.zeros(1, 8)
        if i > 4:
            print((oldest + torch.zeros(1, 8)).shape)


shift(10)

# ---- changed_walrus
def main() -> None:
    k = 2
    [k := k + 1 for _ in range(3)]
    print((torch.zeros(k) + torch.zeros(5)).shape)

# ---- changed_weight
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 2)

    def prune(self, keep):
        self.a.weight.data = self.a.weight.data[keep]
        self.a.bias.data = self.a.bias.data[keep]
        self.b.weight.data = self.b.weight.data[:, keep]

    def forward(self, x):
        h = self.a(x)
        return h * torch.ones(5), self.b(h)


p = Net()
p.prune(torch.arange(5))
p(torch.zeros(2, 4))


def grow(emb: nn.Embedding) -> None:
    emb.weight = nn.Parameter(torch.cat([emb.weight, torch.zeros(2, 4)]))


def main() -> None:
    e = nn.Embedding(10, 4)
    e.weight = nn.Parameter(torch.cat([e.weight, torch.zeros(2, 4)]))
    print((e.weight + torch.zeros(12, 4)).shape)
