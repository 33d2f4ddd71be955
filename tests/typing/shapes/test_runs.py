"""No crash, whatever is declared; ``tests.typing.plugin.test_runs`` compares what different runs report of shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.typing.caches import PLUGIN, warm
from tests.typing.plugin.edits import DECLARED, USED
from tests.typing.plugin.runs import CONFIG, check, fill


def test_it_is_turned_off(kept: Path, tmp_path: Path) -> None:
    off = f"{CONFIG}\n[typedbatch-mypy]\nshapes = false\n"
    cache = warm(kept, replace(PLUGIN, name="mypy-without-shapes", settings={"mypy.ini": off}), tmp_path / "cache")
    for config in (off, off.replace("false", "no")):
        fill(tmp_path / "off", {"declared.py": DECLARED, "used.py": USED, "mypy.ini": config})
        assert "batch-" not in str(check(tmp_path / "off", cache))


UNUSED = """\
from jaxtyping import Float
from numpy import ndarray
def scores(q: Float[ndarray, "B T Head"], k: Float[ndarray, "B S Heads"]) -> Float[ndarray, "B T S"]:
    return q @ k.mT
def rows(x: Float[ndarray, "*batch N"]) -> Float[ndarray, "*batch"]:
    first: Float[ndarray, "*batch N"] = x.copy()
    return first.sum(-1)
"""


def test_names_that_stand_once_are_noted_if_one_asks(tmp_path: Path, without_torch: Path) -> None:
    cache, python = tmp_path / "cache", f"--python-executable={without_torch}"
    fill(tmp_path, {"program.py": UNUSED, "mypy.ini": CONFIG})
    assert "stands once" not in str(check(tmp_path, cache, python))
    (tmp_path / "mypy.ini").write_text(f"{CONFIG}\n[typedbatch-mypy]\nunused-dim = true\n", encoding="utf-8")
    said = str(check(tmp_path, cache, python))  # with the cache of the other setting
    assert said.count("stands once") == 2
    text = 'Size "Head" stands once in scores, so it says nothing of any other; did you mean "Heads"?'
    assert text in said.replace("\\", "")


ODD = """\
from __future__ import annotations
import numpy as np
import torch
from typing import Annotated, Any, Generic, TypeVar, Union
import jaxtyping
import jaxtyping as jt
from jaxtyping import Float, Float as F, Int, Shaped
from torch import Tensor
T = TypeVar("T")
D = 4
Alias = Float[Tensor, "N class"]
Json = Union[dict[str, "Json"], list["Json"], tuple["Json", "Json"], Float[Tensor, "N"], None]
def takes(json: Json, *others: Json) -> Json:
    takes(json, json)
    return torch.zeros(3) if json else takes(takes(json))
Annotated[Tensor, "N"]
class Node:
    left: Node
    items: list[Node]
    x: Float[Tensor, "N"]
    def walk(self, other: Node) -> Float[Tensor, "N"]:
        return self.left.left.x + other.items[0].left.x
def f(
    a: Float[Tensor, ""], b: F[Tensor, "   "], c: jaxtyping.Int[np.ndarray, "N"], d: jt.Shaped[Tensor, "..."],
    e: Float[Tensor, "{self.n} ?x *y"], g: Float[Tensor, "99999999999999999999999 N**N N//0"], h: Float[Any, "N"],
    i: Union[Float[Tensor, "N"], Float[Tensor, "M 2"]], j: Float[T, "N"], k: Alias, *more: Float[Tensor, "N"],
    m: Float[Tensor, "def while N"] = torch.zeros(1), **rest: Float[Tensor, "N"],
) -> tuple[Float[Tensor, "N"], ...]:
    x = a[...][None][:, None].T.mT.reshape(-1).reshape(-1, -1).view(3, *a.shape)[0][::2][::-1][5:1:-1]
    y = torch.zeros(10**30, -5) + torch.zeros(0) + torch.zeros((2,) * 70)
    z = torch.einsum("->", a) + torch.einsum("ij->", a, a) + np.einsum("i", c)  # type: ignore
    del x
    x.foo.bar  # type: ignore
    x = x[x[x]] = x  # type: ignore
    (p, (q, *r)), s = d.shape, 3  # type: ignore
    for (u, v), in [[d]]:  # type: ignore
        u += v @ v @ 3  # type: ignore
    with torch.no_grad() as w, open("x") as o:
        w = o = 1  # type: ignore
    try:
        n = torch.stack([a for a in more if (t := a) is not None]) if more else torch.cat([])
    except* ValueError as error:
        n = error  # type: ignore
    match d:
        case Tensor(): pass
        case [aa, *bb]: aa + bb  # type: ignore
    lambda: (yield)
    def inner(n: int = len(c)) -> None:
        nonlocal y
        y = inner  # type: ignore
    async def co() -> None:
        await co() @ a  # type: ignore
        async for _ in a: pass  # type: ignore
    return tuple(x for x in (a,) * 1000000)
f(*[], **{})  # type: ignore
f(f, f=f)  # type: ignore
"""


def test_odd_declarations_and_deep_programs_crash_nothing(kept: Path, tmp_path: Path) -> None:
    deep = "import torch\nx = torch.zeros(3)\ny = " + "(" * 60 + "x" + " + x)" * 60 + "\n"
    loops = "def f(x: torch.Tensor) -> None:\n" + "".join(
        f"{'    ' * depth}for i{depth} in range(3):\n{'    ' * (depth + 1)}x = x + x[None]\n" for depth in range(1, 15)
    )
    fill(tmp_path / "odd", {"mypy.ini": CONFIG, "odd.py": ODD, "deep.py": deep + loops})
    check(tmp_path / "odd", warm(kept, PLUGIN, tmp_path / "cache"))


def test_what_cannot_be_read_is_said_where_it_is_declared(kept: Path, tmp_path: Path) -> None:
    shapes = ["N (2", "*a *b", "N+", "4.5", "a.b"]
    start = "from jaxtyping import Float\nfrom torch import Tensor\n"
    programs = {
        f"bad{number}.py": f'{start}def f(x: Float[Tensor, "{shape}"]) -> None: ...\n'
        for number, shape in enumerate(shapes)
    }
    fill(tmp_path / "bad", {"mypy.ini": CONFIG, **programs})
    said = str(check(tmp_path / "bad", warm(kept, PLUGIN, tmp_path / "cache")))
    for number, shape in enumerate(shapes):
        assert f"bad{number}.py:3: error: the shape '{shape}' has " in said
