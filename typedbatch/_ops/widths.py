"""Padding of batches to one width, as rollouts of several workers have different longest responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, Tree, blank, leading_shape
from typedbatch._ops.casting import fitted
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._ops.copying import shallow
from typedbatch.errors import SettingError, StructureError, did_you_mean, under

Widths: TypeAlias = Literal["error", "pad"] | Mapping[str, Literal["left", "right"]]
"""Treatment of a field whose second dimension differs between joined batches.

It is an error, or the field is padded to the widest. A mapping does the same, and has the sides of fields that do not
have the side of their names.
"""

PadTokenId: TypeAlias = int | Mapping[str, int] | None
"""Id for padded positions of fields of token ids, or the ids of fields by their dotted names."""

MASK_OF: Final = {
    "input_ids": "attention_mask",
    "prompt_ids": "prompt_mask",
    "response_ids": "response_mask",
    "chosen_ids": "chosen_mask",
    "rejected_ids": "rejected_mask",
}
"""Names of fields of token ids, with those of their masks."""
PER_TOKEN: Final = (
    "response_mask",
    "loss_mask",
    "rollout_logp",
    "old_logp",
    "ref_logp",
    "advantages",
    "values",
    "returns",
    "is_weights",
    "token_rewards",
    "teacher_ids",
    "teacher_logp",
)
"""Names of the fields that have a value for each token."""
_OF_PROMPTS: Final = frozenset({"prompt_ids", "prompt_mask"})
_OF_RESPONSES: Final = frozenset({"response_ids", "response_mask"})
_OF_OTHERS: Final = frozenset({*PER_TOKEN, *MASK_OF, *MASK_OF.values()}) - _OF_PROMPTS
_EXPECTED: Final = "widths= must be 'error', 'pad' or a dict with the sides of fields, as {'scores': 'left'}"

Part: TypeAlias = dict[str, Any]
"""Fields of a batch that is joined."""


@dataclass(slots=True)
class _Asked:
    """Sides and values that are asked for, by the names of fields, and what has been padded.

    Attributes:
        sides: Sides of fields by their dotted names.
        value: Id for positions of token ids; None if there is none.
        values: Ids of fields by their dotted names.
        first: Number of axes that are left as they are.
        integers: Dotted names of other fields of integers that are padded with zeros, but for masks.
    """

    sides: Mapping[str, str]
    value: int | None
    values: Mapping[str, int]
    first: int
    integers: list[str] = field(default_factory=list[str])


def same_widths(batches: Iterable[Any], widths: Widths, pad_token_id: PadTokenId, *, first: int) -> list[Any]:
    """Return batches whose fields have the same sizes behind the first axes.

    Of each field, the first axis is padded in which the batches differ. Fields of the prompts, by their names or by the
    dimension that a record declares, are padded on the left, and others on the right; those of whole sequences, with an
    ``attention_mask``, are padded on the side on which the mask has its padding. Ids are padded with ``pad_token_id``
    and all else with zeros (``None`` for objects). Fields that are padded are copied, the others shared.

    Args:
        batches: Batches or dicts.
        widths: ``"pad"``, or the sides of fields by their dotted names.
        pad_token_id: Id for padded positions, or ids by the dotted names of fields; None where no ids are padded.
        first: Number of axes that are left as they are.

    Raises:
        SettingError: ``widths`` or ``pad_token_id`` is something else, or names a field that no batch has. Or ids are
            padded without ``pad_token_id``; or there is one, and integers are padded, but no field has the name of
            token ids.
        StructureError: it is not known on which side a field is padded.
    """
    sides = widths if isinstance(widths, Mapping) else {}
    if (widths != "pad" and not isinstance(widths, Mapping)) or not {*sides.values()} <= {"left", "right"}:
        raise SettingError(f"{_EXPECTED}, got {widths!r}")
    plain: Any = Tree.__plain__
    given = [plain(one) if isinstance(one, Mapping) else one for one in batches]
    out = [shallow(one) if isinstance(one, Tree) else one for one in given]
    parts = [one for one in out if isinstance(one, Tree) and one.__dict__]
    asked = _Asked(sides, *_ids_of(pad_token_id), first)
    leaves = dict(_leaves(parts))
    for argument, names in (("widths", sides), ("pad_token_id", asked.values)):
        if wrong := [name for name in names if name not in leaves]:
            raise SettingError(f"{argument}= names {wrong[0]!r}, which no batch has{did_you_mean(wrong[0], leaves)}")
    _pad_fields(parts, [{}] * len(parts), {}, asked, "")
    has_ids = (_is_of_ids(name) and len(leading_shape(leaf)) > first for name, leaf in leaves.items())
    if asked.value and asked.integers and not any(has_ids):
        ids, by_name = ", ".join([*MASK_OF, "ids"]), {asked.integers[0]: asked.value}
        raise SettingError(
            f"pad_token_id= is for token ids ({ids}), and none of these is there; {', '.join(asked.integers)} would "
            f"be padded with zeros: pass pad_token_id={by_name}, or leave it out"
        )
    return out


def _ids_of(pad_token_id: Any) -> tuple[int | None, dict[str, int]]:
    """Return the id for all token ids, and the ids of fields by their names.

    Raises:
        SettingError: One of them is not a whole number.
    """
    by_name = pad_token_id if isinstance(pad_token_id, Mapping) else {"": pad_token_id}
    try:
        ids = {name: index(one) for name, one in by_name.items() if name or one is not None}
    except TypeError:
        raise SettingError(f"pad_token_id= must be a whole number, or a dict of these, got {pad_token_id!r}") from None
    return ids.pop("", None), ids


def _leaves(trees: Iterable[Tree], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and values of all fields."""
    for tree in trees:
        for name, value in tree.__dict__.items():
            yield f"{prefix}{name}", value
            if isinstance(value, Tree):
                yield from _leaves([value], f"{prefix}{name}.")


def _is_of_ids(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last in MASK_OF or last == "ids"


def _pad_fields(
    trees: Sequence[Tree], outer: Sequence[Part], dims: Mapping[str, str], asked: _Asked, prefix: str
) -> None:
    """Pad the fields of several batches in place.

    ``outer`` are the fields around nested batches, as they were, and ``dims`` the declared dimensions of tokens.
    """
    from typedbatch.schema import schema_of  # the schema is a layer above this module

    parts = [tree.__dict__ for tree in trees]
    around = [{**fields, **part} for fields, part in zip(outer, parts, strict=True)]
    declared = ((field.name, field.dim(1)) for tree in trees[:1] for field in schema_of(type(tree)))
    dims = {**dims, **{name: dim.text for name, dim in declared if dim is not None}}
    names = dict.fromkeys(name for part in parts for name in part)
    uneven = {name: found for name in names if (found := _uneven(name, parts, asked.first)) is not None}
    settled = {}
    for name, own in uneven.items():
        with under(name):
            side = asked.sides.get(f"{prefix}{name}") or _side_of(name, own, around, asked.first, dims)
            leaf = next(part[name] for part in parts if name in part)
            settled[name] = side, _value_of(name, f"{prefix}{name}", leaf, asked)
    for name, (axis, widths) in uneven.items():
        with under(name):
            for part in parts:
                if name in part and part[name].shape[axis] < max(widths):
                    part[name] = _padded(part[name], axis, max(widths), *settled[name])
    for name in names:
        inner = [
            number for number, part in enumerate(parts) if isinstance(part.get(name), Tree) and part[name].__dict__
        ]
        if inner:
            nested, fields = [parts[number][name] for number in inner], [around[number] for number in inner]
            with under(name):
                _pad_fields(nested, fields, dims, asked, f"{prefix}{name}.")


def _uneven(name: str, parts: Sequence[Part], first: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the first axis in which a field differs between batches, and its sizes; None if there is none."""
    leaves = [part[name] for part in parts if name in part]
    if not all(map(_can_be_padded, leaves)):
        return None
    shapes = [tuple(leaf.shape[first:]) for leaf in leaves]
    if len(set(map(len, shapes))) > 1:
        return None
    sizes = zip(*shapes, strict=True)
    return next(((first + axis, found) for axis, found in enumerate(sizes) if len(set(found)) > 1), None)


def _can_be_padded(leaf: Any) -> bool:
    kind = KINDS[type(leaf)]
    return kind is ARRAY or (kind is TENSOR and not leaf.is_nested and not leaf.is_sparse)


def _side_of(
    name: str, own: tuple[int, tuple[int, ...]], parts: Sequence[Part], first: int, dims: Mapping[str, str]
) -> str:
    """Return the side on which a field is padded."""
    if name in _OF_PROMPTS:
        return "left"
    if any("attention_mask" in part for part in parts):
        return _side_of_sequences(name, parts)
    prompts, responses = ({dims[one] for one in names if one in dims} for names in (_OF_PROMPTS, _OF_RESPONSES))
    if dims.get(name, "") in prompts - responses:
        return "left"
    if name in _OF_OTHERS or (prompts and dims.get(name, "").isidentifier()):
        return "right"
    ids = [[leading_shape(part.get(one))[own[0] :] for part in parts] for one in ("prompt_ids", "response_ids")]
    before, after = ([sum(sizes[:1]) for sizes in shapes] for shapes in ids)
    together = [sum(sizes) for sizes in zip(before, after, strict=True)]
    if len({*before}) > 1 and [*own[1]] in (before, together):
        which = "the prompts" if [*own[1]] == before else "prompts and responses together"
        raise StructureError(
            f"it is as wide as {which}; widths={{{name!r}: 'left'}} or 'right' says where it is padded"
        )
    return "right"


def _side_of_sequences(name: str, parts: Sequence[Part]) -> str:
    """Return the side of the padding of whole sequences."""
    found = set()
    has_prompts = False
    for part in parts:
        mask = np.asarray(leaf_to_numpy(part.get("attention_mask", np.zeros(1)))) != 0
        of_response = part.get("response_mask", mask)
        if leading_shape(of_response) != mask.shape:  # Only the layout "left" has it narrower.
            found.add("left")
        else:
            has_prompts |= bool((mask & (np.asarray(leaf_to_numpy(of_response)) == 0)).any())
        begins, ends = mask[..., 1:] & ~mask[..., :-1], mask[..., :-1] & ~mask[..., 1:]
        found |= {side for side, there in (("left", begins), ("right", ends)) if there.any()}
    if not found and has_prompts:  # Only the layout "right" has tokens of prompts in it.
        return "right"
    if len(found) != 1:
        why = "has padding on both sides" if found else "has no padding"
        raise StructureError(f"attention_mask {why}; widths={{{name!r}: 'right'}} or 'left' says where it is padded")
    return found.pop()


def _value_of(name: str, dotted: str, leaf: Any, asked: _Asked) -> int:
    """Return the value for padded positions of a field, and take note of fields of integers."""
    if dotted in asked.values:
        return asked.values[dotted]
    if _is_of_ids(name):
        if asked.value is None:
            raise SettingError("it is padded; pass pad_token_id=, the id for padded positions")
        return asked.value
    if "int" in str(leaf.dtype) and not name.endswith("mask"):
        asked.integers.append(dotted)
    return 0


def _padded(leaf: Any, axis: int, width: int, side: str, value: int) -> Any:
    before, size = (slice(None),) * axis, leaf.shape[axis]
    kept, rest = slice(size), slice(size, None)
    if side == "left":
        kept, rest = slice(width - size, None), slice(width - size)
    out = blank(leaf, (*leaf.shape[:axis], width, *leaf.shape[axis + 1 :]))
    if value:
        out[(*before, rest)] = fitted(leaf, np.asarray(value))
    out[(*before, kept)] = leaf
    return out
