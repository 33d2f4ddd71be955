"""What is said of a batch in each of the places where mypy compares one with a protocol, whole and word by word."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.typing.caches import PLUGIN, warm
from tests.typing.plugin.runs import CONFIG, check

HEAD = """\
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar
import numpy as np
from typedbatch import Batch, BatchWithReturnsProtocol, ObsBatchProtocol, RolloutBatch, RolloutBatchProtocol, extend
from typedbatch import BatchRecord, rule
P = TypeVar("P", bound=ObsBatchProtocol)
T = TypeVar("T")
class Box(Generic[T]):
    def put(self, x: T) -> None: ...
def ask(batch: ObsBatchProtocol) -> None: ...
def same(batch: P) -> P: return batch
def fill(batch: Batch) -> None: ...
"""
OBS, RETURNS, ARGUMENT = "ObsBatchProtocol", "BatchWithReturnsProtocol", "[batch-argument]"
MADE = "b = Batch(obs=np.zeros(3), act=np.zeros(3))"
LACKS = 'Batch lacks "info" of ObsBatchProtocol; it has act, obs'
UNKNOWN = "Batch of unknown content where ObsBatchProtocol is asked for; validate() it, or annotate ObsBatchProtocol"
CHANGED = "def f(r: RolloutBatch) -> None:\n    vars(r)\n    t = r.to_torch()\n    need(t)\n"
KEEPS = (
    "to_torch() gives a plain Batch, and convert() keeps the type: "
    "convert(batch, RolloutBatch[Tensor], dtype=..., device=...)"
)
ROLLOUT = "act, info, obs, obs_next, rew, terminated, truncated"

PLACES = {
    "argument": (f"def f() -> None:\n    {MADE}\n    ask(b)", f"{LACKS}  [batch-argument]"),
    "keyword": (f"def f() -> None:\n    {MADE}\n    ask(batch=b)", f"{LACKS}  [batch-argument]"),
    "argument of a generic class": (
        f"def f(box: Box[ObsBatchProtocol]) -> None:\n    {MADE}\n    box.put(b)",
        f"{LACKS}  [batch-argument]",
    ),
    "type variable": (f"def f() -> None:\n    {MADE}\n    same(b)", f"{LACKS}  [type-var]"),
    "return": (f"def f() -> ObsBatchProtocol:\n    {MADE}\n    return b", f"{LACKS}  [return-value]"),
    "return of a display": (
        "def f() -> ObsBatchProtocol:\n    return Batch(obs=1, act=2)",
        f"{LACKS}  [return-value]",
    ),
    "return of a coroutine": (
        f"async def f() -> ObsBatchProtocol:\n    {MADE}\n    return b",
        f"{LACKS}  [return-value]",
    ),
    "yield": (f"def f() -> Iterator[ObsBatchProtocol]:\n    {MADE}\n    yield b", f"{LACKS}  [misc]"),
    "asynchronous yield": (
        f"async def f() -> AsyncIterator[ObsBatchProtocol]:\n    {MADE}\n    yield b",
        f"{LACKS}  [misc]",
    ),
    "annotated name": (f"def f() -> None:\n    {MADE}\n    p: ObsBatchProtocol = b", f"{LACKS}  [assignment]"),
    "annotated attribute": (
        f"class C:\n    p: ObsBatchProtocol\n    def f(self) -> None:\n        {MADE}\n        self.p = b",
        f"{LACKS}  [assignment]",
    ),
    "item of a list": (f"def f() -> None:\n    {MADE}\n    p: list[ObsBatchProtocol] = [b]", f"{LACKS}  [list-item]"),
    "value of a dict": (
        f'def f() -> None:\n    {MADE}\n    p: dict[str, ObsBatchProtocol] = {{"a": b}}',
        f"{LACKS}  [dict-item]",
    ),
    "argument of unknown content": ("def f(b: Batch) -> None:\n    ask(b)", f"{UNKNOWN}  [batch-argument]"),
    "return of unknown content": ("def f(b: Batch) -> ObsBatchProtocol:\n    return b", f"{UNKNOWN}  [return-value]"),
    "unknown content, partly written": (
        "def f(b: Batch) -> None:\n    b.obs = np.zeros(3)\n    ask(b)",
        f'Batch of unknown content lacks "info" of {OBS}; set here: obs; validate() it, or annotate {OBS}  {ARGUMENT}',
    ),
    "record converted by a method": (
        f"def f(r: RolloutBatch) -> None:\n    t = r.to_torch()\n    need(t)\ndef need(b: {RETURNS}[Any]) -> None: ...",
        f'Batch lacks "returns" of {RETURNS}; it has {ROLLOUT}  {ARGUMENT}',
    ),
    "record that others may have changed, converted by a method": (
        f"{CHANGED}def need(b: {RETURNS}[Any]) -> None: ...",
        f"Batch of unknown content where {RETURNS} is asked for; {KEEPS}  {ARGUMENT}",
    ),
    "another library's word in extend": (
        "def f(r: RolloutBatch) -> None:\n    extend(r, BatchWithReturnsProtocol, ret=np.zeros(3))",
        'BatchWithReturnsProtocol declares no field "ret"; did you mean "returns"?  [batch-extend]',
    ),
    "record as an argument": (
        "def need(b: BatchWithReturnsProtocol) -> None: ...\ndef f(r: RolloutBatch) -> None:\n    need(r)",
        f'RolloutBatch lacks "returns" of BatchWithReturnsProtocol; it has {ROLLOUT}  [batch-argument]',
    ),
    "record whose rules are not fields": (
        'class R(BatchRecord):\n    obs: np.ndarray\n    n = rule(bool, "n")\ndef f(r: R) -> None:\n    ask(r)',
        f'R lacks "info" of {OBS}; it has obs  {ARGUMENT}',
    ),
    "protocol returned as another": (
        "def f(r: RolloutBatchProtocol) -> BatchWithReturnsProtocol:\n    ask(r)\n    return r",
        f'RolloutBatchProtocol lacks "returns" of BatchWithReturnsProtocol; it has {ROLLOUT}  [return-value]',
    ),
    "field that may be missing, returned": (
        f"def f(c: bool) -> {OBS}:\n    b = Batch(obs=np.zeros(3))\n    if c:\n        b.info = Batch()\n    return b",
        f'Batch may lack "info" of {OBS} here: it depends on line 16, which not every run comes to  [return-value]',
    ),
    "field that a record does not declare": (
        "def f(r: RolloutBatch) -> None:\n    ask(r)\n    r.reward",
        'RolloutBatch has no field "reward"; did you mean "rew"?  [attr-defined]',
    ),
    "field that a protocol does not declare": (
        "def f(r: RolloutBatchProtocol) -> None:\n    ask(r)\n    print(r.returns.mean())",
        f'RolloutBatchProtocol has no field "returns"; it has {ROLLOUT}  [attr-defined]',
    ),
    "another type than a batch": (
        f"def f() -> int:\n    {MADE}\n    return b",
        'Incompatible return value type (got "Batch(act, obs)", expected "int")  [return-value]',
    ),
    "where no hook was asked before": (
        "def f(r: RolloutBatch) -> None:\n    r.reward",
        'RolloutBatch has no field "reward"; did you mean "rew"?  [attr-defined]',
    ),
    "method that a batch does not have": (
        "def f(b: Batch) -> None:\n    with b:\n        pass",
        '"Batch" has no attribute "__enter__"; maybe "__iter__"?  [attr-defined]',
    ),
}
SILENT = {
    "returned after it was handed on": f"def f() -> ObsBatchProtocol:\n    {MADE}\n    fill(b)\n    return b",
    "record converted by a method, with what is asked for": (
        f"def f(r: RolloutBatch) -> None:\n    t = r.to_torch()\n    need(t)\ndef need(b: {OBS}[Any]) -> None: ..."
    ),
    "type variable, kept": (
        "def f() -> None:\n    b = same(Batch(obs=np.zeros(3), info=Batch()))\n    print(b.obs)\n    ask(b)"
    ),
    "returned under a condition": (
        f"def f(c: bool) -> {OBS} | None:\n    b = Batch(obs=np.zeros(3))\n    if c:\n        b.info = Batch()\n"
        "    if c:\n        return b\n    return None"
    ),
}


@pytest.fixture(scope="module")
def said(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The reports on each program, without place; of all in one run."""
    place = tmp_path_factory.mktemp("places")
    cache = warm(kept, PLUGIN, place / "cache")
    folder = place / "programs"
    folder.mkdir()
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    programs = {**{name: code for name, (code, _) in PLACES.items()}, **SILENT}
    for number, code in enumerate(programs.values()):
        (folder / f"p{number}.py").write_text(HEAD + textwrap.dedent(code) + "\n", encoding="utf-8")
    found: dict[str, list[str]] = {name: [] for name in programs}
    for line in check(folder, cache).lines:
        file, _, rest = line.partition(":")
        found[list(programs)[int(file[1:-3])]].append(rest.partition(": ")[2])
    return found


@pytest.mark.parametrize("place", PLACES)
def test_one_report_in_plain_words(place: str, said: dict[str, list[str]]) -> None:
    errors = [line.removeprefix("error: ") for line in said[place] if line.startswith("error: ")]
    assert errors[:1] == [PLACES[place][1]]
    assert all(line.endswith('no attribute "__exit__"  [attr-defined]') for line in errors[1:])
    assert not [line for line in said[place] if line.startswith("note: ")]


def test_notes_show_fields_as_errors_do(kept: Path, tmp_path: Path) -> None:
    program = f"""
from typing import Protocol
class HasCopy(Protocol):
    def copy(self, how: int) -> int: ...
{MADE}
copied: HasCopy = b
reveal_type(b)
"""
    (tmp_path / "program.py").write_text(HEAD + program, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    notes = [line for line in check(tmp_path, warm(kept, PLUGIN, tmp_path / "cache")).lines if ": note: " in line]
    assert any('note: Following member(s) of "Batch(act, obs)" have conflicts:' in line for line in notes)
    assert ["Revealed" in line for line in notes if "TypedDict" in line] == [True]


@pytest.mark.parametrize("place", SILENT)
def test_nothing_is_said(place: str, said: dict[str, list[str]]) -> None:
    assert said[place] == []
