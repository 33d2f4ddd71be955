"""Questions to an editor about programs that are being typed; each returns the names or fields that are wrong."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import typedbatch
from tests.evidence.editor.servers import CURSOR, Editor, Offer, Place, Server

HEAD: Final = """\
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchWithReturns, MultiAgentBatch, RolloutBatch, RolloutBatchProtocol, SampleBatch
from typedbatch import convert, extend, validate
from typedbatch.buffers import ReplayBuffer

R = TypeVar("R", bound=RolloutBatchProtocol)


class GoalRollout(RolloutBatch):
    goal: NDArray[np.float32]
    \"\"\"Where to go, ``(N, 3)``.\"\"\"


"""

VALUES: Final[Mapping[str, str]] = {
    "protocol parameter": "def use(batch: RolloutBatchProtocol):\n    batch.",
    "validated value": "def use(loaded: Batch):\n    batch = validate(loaded, RolloutBatchProtocol)\n    batch.",
    "record": "def use(batch: RolloutBatch):\n    batch.",
    "made record": "def use(x: NDArray[np.float32]):\n"
    "    batch = RolloutBatch(obs=x, info=Batch(), obs_next=x, act=x, rew=x, terminated=x, truncated=x)\n    batch.",
    "slice": "def use(record: RolloutBatch):\n    record[:10].",
    "row in a loop": "def use(record: RolloutBatch):\n    for row in record:\n        row.",
    "minibatch in a loop": "def use(record: RolloutBatch):\n    for minibatch in record.split(64):\n        minibatch.",
    "own record": "def use(batch: GoalRollout):\n    batch.",
    "extended": "def use(record: RolloutBatch):\n"
    "    batch = extend(record, BatchWithReturns, returns=record.rew)\n    batch.",
    "sampled": "def use(buffer: ReplayBuffer[RolloutBatch]):\n    batch, slots = buffer.sample(64)\n    batch.",
    "type variable": "def use(batch: R) -> R:\n    batch.",
    "converted": "from torch import Tensor\n\n\n"
    "def use(record: RolloutBatch):\n    batch = convert(record, RolloutBatch[Tensor])\n    batch.",
}
"""Each kind of value: a program up to the dot behind it."""

FIELDS: Final = tuple(typedbatch.RolloutBatch.__record_fields__)
_MORE: Final = {"own record": ("goal",), "extended": ("returns",)}

DECLARED_IN: Final = {
    "protocol parameter": typedbatch.RolloutBatchProtocol,
    "record": typedbatch.RolloutBatch,
    "extended": typedbatch.BatchWithReturns,
}
CALLS: Final = {"RolloutBatch": FIELDS, "GoalRollout": (*FIELDS, "goal")}


def fields_of(value: str) -> tuple[str, ...]:
    """The fields of a kind of value."""
    return (*FIELDS, *_MORE.get(value, ()))


def offers(editor: Editor, value: str) -> list[Offer]:
    """Return the completions behind the dot."""
    return editor.complete(f"{HEAD}{VALUES[value]}{CURSOR}\n")


def not_offered(editor: Editor, value: str) -> list[str]:
    """The fields that are not offered."""
    names = {offer.name for offer in offers(editor, value)}
    return [field for field in fields_of(value) if field not in names]


def not_ahead(editor: Editor, value: str) -> list[str]:
    """The fields that stand behind something that is not a field."""
    names, fields = [offer.name for offer in offers(editor, value)], fields_of(value)
    others = next((rank for rank, name in enumerate(names) if name not in fields), len(names))
    return [field for field in fields if field not in names[:others]]


def not_by_name(editor: Editor, value: str) -> list[str]:
    """The fewest names without which the others are in order; names with an underscore in front are left out."""
    names = [offer.name.lower() for offer in offers(editor, value) if offer.name[0] != "_"]
    in_order: list[list[str]] = [[]]  # the longest list in order that ends with each name
    for name in names:
        in_order.append([*max((one for one in in_order if not one or one[-1] <= name), key=len), name])
    return [name for name in names if name not in max(in_order, key=len)]


def untyped_offers(editor: Editor, value: str) -> list[str]:
    """The fields that are offered without their type."""
    wanted = "tensor" if value == "converted" else "ndarray"
    found = {offer.name: offer for offer in offers(editor, value)}
    return [field for field in _own_or_all(value) if field not in found or wanted not in found[field].more().lower()]


def undocumented_offers(editor: Editor, value: str) -> list[str]:
    """The fields that are offered without their docstring."""
    found = {offer.name: offer for offer in offers(editor, value)}
    return [
        field
        for field in _own_or_all(value)
        if field not in found or _prose(documentation(value, field)) not in _prose(found[field].more())
    ]


def undocumented_hovers(editor: Editor, value: str) -> list[str]:
    """The fields over which the docstring is not shown, shape and all."""
    return [
        field
        for field in _own_or_all(value)
        if _prose(documentation(value, field)) not in _prose(editor.hover(_at(value, field)))
    ]


def untyped_hovers(editor: Editor, value: str) -> list[str]:
    """The fields over which the type is not shown."""
    return [field for field in _own_or_all(value) if "ndarray" not in editor.hover(_at(value, field)).lower()]


def misplaced(editor: Editor, value: str) -> list[str]:
    """The fields whose definition is found elsewhere than where they are declared."""
    return [
        field for field in _own_or_all(value) if editor.definition(_at(value, field)) != [_declaration(value, field)[0]]
    ]


def keywords_not_ahead(editor: Editor, call: str) -> list[str]:
    """The keywords of a constructor that are not offered before everything else."""
    names = [offer.name for offer in editor.complete(f"{HEAD}batch = {call}({CURSOR})\n")]
    return [name for name in CALLS[call] if name not in names[: len(CALLS[call])]]


def later_keywords_not_offered(editor: Editor, call: str) -> list[str]:
    """The keywords that are not offered once others are there."""
    text = f"{HEAD}def use(x: NDArray[np.float32]):\n    return {call}(obs=x, act=x, {CURSOR})\n"
    names = {offer.name for offer in editor.complete(text)}
    return [name for name in CALLS[call] if name not in {*names, "obs", "act"}]


def begun_keyword_not_offered(editor: Editor, call: str) -> list[str]:
    """The keyword of which two letters are typed, if it is not offered."""
    names = {offer.name for offer in editor.complete(f"{HEAD}batch = {call}(te{CURSOR})\n")}
    return [name for name in ("terminated",) if name not in names]


def unsigned(editor: Editor, call: str) -> list[str]:
    """The keywords that the signature of the constructor lacks."""
    signature = editor.signature(f"{HEAD}batch = {call}({CURSOR})\n")
    return [name for name in CALLS[call] if f" {name}: " not in signature.replace("(", "( ")]


def members_not_offered(editor: Editor, cls: str) -> list[str]:
    """The public members of a class that are not offered."""
    names = {offer.name for offer in editor.complete(f"{HEAD}def use(batch: {cls}):\n    batch.{CURSOR}\n")}
    return [name for name in vars(getattr(typedbatch, cls)) if name[0] != "_" and name not in names]


def guessed(editor: Editor, cls: str) -> list[str]:
    """The fields that are offered where nothing declares them: only because other lines have these words."""
    names = {offer.name for offer in editor.complete(f"{HEAD}def use(batch: {cls}):\n    batch.{CURSOR}\n")}
    return [field for field in FIELDS if field in names]


def documentation(value: str, field: str) -> str:
    """A field's docstring in the source."""
    return _declaration(value, field)[1]


Question = Callable[[Editor, str], list[str]]

OWN: Final = ("protocol parameter", "record", "own record", "extended")
"""Values whose fields are declared in four different places."""
OFFERS: Final[Mapping[Question, Collection[str]]] = {
    not_offered: VALUES,
    keywords_not_ahead: CALLS,
    later_keywords_not_offered: CALLS,
    begun_keyword_not_offered: CALLS,
    members_not_offered: ("Batch", "MultiAgentBatch", "SampleBatch"),
    guessed: ("Batch",),
}
"""Questions with what each is asked about; the order of what is offered is another one, see :func:`in_disorder`."""
DETAILS: Final[Mapping[Question, Collection[str]]] = {
    untyped_offers: (*OWN, "converted"), undocumented_offers: OWN, undocumented_hovers: OWN, untyped_hovers: OWN,
    misplaced: OWN, unsigned: CALLS,
}  # fmt: skip
"""Questions about single offers and names; some servers put first from then on what was asked about."""


def in_disorder(server: Server) -> Question:
    """Fields come first; or names are in order, where a server sorts by name."""
    return not_by_name if server.by_name else not_ahead


def _own_or_all(value: str) -> tuple[str, ...]:
    """The fields to look at one by one: of a class that inherits its other fields, those that it adds."""
    return _MORE.get(value, FIELDS)


def _at(value: str, field: str) -> str:
    return f"{HEAD}{VALUES[value]}{field[:-1]}{CURSOR}{field[-1]}\n"


def _prose(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def _declaration(value: str, field: str) -> tuple[Place, str]:
    """Where a field is declared, and its docstring, as the source has them."""
    if value not in DECLARED_IN:
        return _declared("program.py", HEAD, "GoalRollout")[field] if field == "goal" else _declaration("record", field)
    for cls in DECLARED_IN[value].__mro__:
        path = Path(inspect.getfile(cls)) if cls.__module__.startswith("typedbatch.") else None
        if path is not None and field in (found := _declared(path.name, path.read_text("utf-8"), cls.__name__)):
            return found[field]
    raise LookupError(field)


def _declared(file: str, source: str, cls: str) -> dict[str, tuple[Place, str]]:
    """Place and docstring of each property, and of each annotation that a docstring follows, in the body of a class."""
    (body,) = [node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == cls]
    found = {}
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = Place(file, node.lineno), ast.get_docstring(node) or ""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(after, ast.Expr):
            found[node.target.id] = Place(file, node.lineno), ast.literal_eval(after.value)
    return found
