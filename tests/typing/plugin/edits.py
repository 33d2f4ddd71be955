"""A project of eight modules, and what is done to it, edit by edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

A = """
from collections.abc import Sized
import numpy as np
from typedbatch import Batch

rollout = Batch(obs=np.zeros((4, 2)), act=[0, 1, 0, 1], rew=[0.0, 1.0, 0.0, 1.0])
nested = Batch(obs={"cam": np.zeros((4, 3)), "pos": [1, 2, 3, 4]}, act=[0, 1, 0, 1])


def peek(batch: Batch) -> None:
    print(batch)


class Store:
    shared = Batch(count=[0])

    def __init__(self) -> None:
        self.last = Batch(obs=np.zeros(2), done=[False])

    def push(self) -> None:
        self.last.steps = [1]
"""

B = """
from typedbatch import Batch
import a
from a import Store, nested, rollout
from c import train

reveal_type(rollout)
reveal_type(nested.obs)
rollout.rwe
nested.obs.depth
train(rollout)


def read(store: Store, flag: bool) -> None:
    reveal_type(store.last)
    reveal_type(a.Store.shared)
    store.last.missing
    local = rollout
    local.returns = [1.0]
    reveal_type(local.returns)
    if flag:
        local.adv = [1.0]
    local.adv


def follow(flag: bool) -> None:
    local = Batch(obs=rollout.obs, old=[1])
    if flag:
        local.new = rollout.act
    local.new
    del local.old
    local.old
    a.peek(local)
    local.later
    train(local)


def keep(flag: bool) -> None:
    for part in rollout.split(2):
        part.rew
        part.returns
    if flag:
        unknown = Batch(rollout, extra=[1])
        unknown.extra
        unknown.other
        reveal_type(unknown.rew)


def depends(flag: bool) -> None:
    here = Batch(obs=[1])
    if flag:
        here.act = rollout.act
    here.act
    train(here)
"""

C = """
from typing import Any, Protocol

from numpy.typing import NDArray
from typedbatch import Batch, BatchProtocol, cat, conforms, convert, extend
from a import Store, rollout


class Wanted(BatchProtocol, Protocol):
    @property
    def obs(self) -> NDArray[Any]: ...
    @property
    def act(self) -> NDArray[Any]: ...


class WantedMore(Wanted, Protocol):
    @property
    def returns(self) -> NDArray[Any]: ...


def train(batch: Wanted) -> None:
    batch.obs


def passes(store: Store) -> WantedMore:
    train(rollout)
    train(store.last)
    train(Batch(obs=rollout.obs, act=[1]))
    train(cat([rollout, rollout]))
    if conforms(store.last, Wanted):
        reveal_type(store.last.act)
    extend(rollout, WantedMore)
    extend(Batch(obs=rollout.obs, act=[1]), WantedMore)
    rollout.returns = rollout.rew
    reveal_type(convert(rollout, WantedMore))
    return extend(rollout, WantedMore, returns=rollout.obs)
"""

DECLARED = """\
from typing import TypeAlias
from jaxtyping import Float
from torch import Tensor
PerStep: TypeAlias = Float[Tensor, "T N"]
def loss(logp: Float[Tensor, "N"], adv: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    return -(logp * adv).mean()
class Net:
    weight: Float[Tensor, "A D"]
def scaled(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2
"""
USED = """\
import torch
from jaxtyping import Float
from torch import Tensor
from declared import Net, PerStep, loss, scaled
def aliased(x: PerStep) -> Float[Tensor, "T N"]:
    return x.abs()
def train(logp: Float[Tensor, "N"], adv: Float[Tensor, "N 1"], net: Net) -> Tensor:
    x: Float[Tensor, "N 4"] = torch.zeros(len(logp), 4)
    y = x @ net.weight[:, :3].T
    return loss(logp, adv)
def other(a: Float[Tensor, "T B"], b: Float[Tensor, "T+1 B"]) -> Tensor:
    return a - b
a = torch.zeros(3) + torch.zeros(4)
def inner(x, times=2):
    return scaled(x) + torch.zeros(7 * times)
def outer() -> Tensor:
    return inner(torch.zeros(7), 1)
"""

RECORDS = """\
import numpy as np
from numpy.typing import NDArray
from typing import Any
from typedbatch import RolloutBatch
class Weighted(RolloutBatch):
    weight: NDArray[Any]
"""
HELPERS = """\
from typing import TypeVar
from typedbatch import Batch
B = TypeVar("B", bound=Batch)
def shuffled(batch: B) -> B:
    batch.order = [1, 0]
    return batch
def made() -> Batch:
    return Batch(obs=[1, 2], rew=[3, 4])
def loss(batch: Batch) -> None:
    print(batch.rew)
"""
EXTENDED = """\
import numpy as np
from typedbatch import Batch, RolloutBatch, extend
from helpers import loss, made, shuffled
from records import Weighted
def weigh(rollout: RolloutBatch) -> Weighted:
    return extend(rollout, Weighted, weight=np.ones(3))
def shuffle() -> None:
    batch = shuffled(Batch(obs=[1, 2]))
    print(batch.order, batch.obs, batch.seed)
    print(made().rew, made().seed)
    loss(Batch(obs=[1], reward=[1]))
"""

RUN = """\
from typedbatch import Batch
from steps import finish, start
def train(batch: Batch) -> None:
    print(batch.rew, batch.reward, batch.returns)
if __name__ == "__main__":
    rollout = start()
    finish(rollout)
    train(rollout)
"""
STEPS_OF_RUN = """\
import numpy as np
from typedbatch import Batch
def start() -> Batch:
    batch = Batch()
    batch["rew"] = np.ones(3)
    return batch
def finish(batch: Batch) -> None:
    batch.returns = batch.rew.cumsum()
"""

START = {
    "a.py": A, "b.py": B, "c.py": C, "declared.py": DECLARED, "used.py": USED, "records.py": RECORDS,
    "helpers.py": HELPERS, "extended.py": EXTENDED, "run.py": RUN, "steps.py": STEPS_OF_RUN,
}  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """One change of one file.

    Attributes:
        says: what is changed.
        text: from the text of the file, None where there is none, to its new one.
    """

    says: str
    file: str
    text: Callable[[str | None], str | None]


def _replace(says: str, file: str, old: str, new: str) -> Edit:
    def text(now: str | None) -> str:
        if now is None or now.count(old) != 1:
            raise ValueError(f"{says}: {old!r} is not there once")
        return now.replace(old, new)

    return Edit(says, file, text)


STEPS: tuple[tuple[Edit, ...], ...] = (
    (
        _replace("module batch loses a field", "a.py", ", rew=[0.0, 1.0, 0.0, 1.0])", ")"),
        _replace("batch of a class loses its fields", "a.py", "Batch(count=[0])", "Batch()"),
        _replace("function adds rows of the same number", "used.py", "return a - b", "return a - b[1:]"),
        _replace("field of a record is renamed", "records.py", "weight:", "weights:"),
        _replace("program makes another field", "steps.py", 'batch["rew"] =', 'batch["reward"] ='),
    ),
    (
        _replace(
            "module batch gains a field", "a.py", "act=[0, 1, 0, 1])\nnested", "act=[0, 1, 0, 1], rwe=[1])\nnested"
        ),
        _replace("parameter is reshaped", "declared.py", 'adv: Float[Tensor, "N"]', 'adv: Float[Tensor, "N 1"]'),
        _replace("field of a record has its name again", "records.py", "weights:", "weight:"),
        _replace("program does not call what makes a field", "run.py", "    finish(rollout)\n", "    print(finish)\n"),
    ),
    (
        _replace("field is renamed", "a.py", "rwe=[1]", "rew=[1.0]"),
        _replace("nested field is renamed", "a.py", '"cam": np.zeros((4, 3))', '"depth": None'),
        _replace(
            "function that a called one calls gives another shape",
            "declared.py",
            '-> Float[Tensor, "N"]',
            '-> Float[Tensor, "N 2"]',
        ),
        _replace(
            "record has another field", "records.py", "weight: NDArray[Any]", "weight: NDArray[Any]\n    seed: int"
        ),
        _replace("program does not name what makes a field", "run.py", "    print(finish)\n", ""),
        _replace("program does not import what makes a field", "run.py", "import finish, start", "import start"),
    ),
    (
        _replace("field is retyped", "a.py", "obs=np.zeros((4, 2))", 'obs={"depth": np.zeros(4)}'),
        _replace("function sets no fields", "a.py", "def peek(batch: Batch)", "def peek(batch: Sized)"),
        _replace("attribute is reshaped", "declared.py", '"A D"', '"Actions 5"'),
        _replace("generic function sets another field", "helpers.py", "batch.order =", "batch.seed ="),
        _replace("program may make any field", "steps.py", "import numpy as np", "import pickle\nimport numpy as np"),
    ),
    (
        _replace("batch of an instance gains a field", "a.py", "done=[False])", "done=[False], act=[1])"),
        _replace("method sets another field", "a.py", "self.last.steps = ", "self.last.missing = "),
        _replace("alias is reshaped", "declared.py", '"T N"', '"T N 2"'),
        _replace("function reads another field", "helpers.py", "batch.rew)", "batch.reward)"),
        _replace("program makes all its fields again", "steps.py", "import pickle\n", ""),
    ),
    (
        _replace(
            "protocol gains a member", "c.py", "\n\nclass WantedMore", "    rew: NDArray[Any]\n\n\nclass WantedMore"
        ),
        _replace("top of the module adds rows of the same number", "used.py", "torch.zeros(4)", "torch.zeros( 3 )"),
        _replace("function makes another field", "helpers.py", "rew=[3, 4]", "seed=[3, 4]"),
    ),
    (_replace("protocol loses a member", "c.py", "    @property\n    def act(self) -> NDArray[Any]: ...\n", ""),),
    (
        _replace(
            "protocol is none of typedbatch", "c.py", "class Wanted(BatchProtocol, Protocol)", "class Wanted(Protocol)"
        ),
    ),
    (_replace("protocol is a class", "c.py", "class Wanted(Protocol)", "class Wanted"),),
    (
        _replace("class is a protocol again", "c.py", "class Wanted:", "class Wanted(BatchProtocol, Protocol):"),
        _replace("syntax error", "a.py", "def peek(", "def peek"),
    ),
    (_replace("syntax error is repaired", "a.py", "def peekbatch", "def peek(batch"),),
    (
        _replace("import is dropped", "b.py", "from c import train\n", ""),
        _replace(
            "import cycle", "a.py", "import Batch\n", "import Batch\nfrom c import Wanted\nreveal_type(Wanted.obs)\n"
        ),
    ),
    (
        _replace("import is back", "b.py", "import a\n", "import a\nfrom c import train\n"),
        Edit("file is gone", "a.py", lambda _: None),
    ),
    (Edit("file is back", "a.py", lambda _: A),),
)
"""Edits of files that do not import one another are one step.

Those of shapes, records and programs change a size, too, as mypy's daemon looks at sizes and the clock.
"""


def states() -> Iterator[tuple[str, dict[str, str]]]:
    """The project at first and after each step, with what was changed last."""
    files = dict(START)
    yield "start", dict(files)
    for step in STEPS:
        for edit in step:
            text = edit.text(files.pop(edit.file, None))
            if text is not None:
                files[edit.file] = text
        yield " and ".join(edit.says for edit in step), dict(files)
