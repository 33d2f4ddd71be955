"""Credit: which rewards, advantages and references change what each row of a batch teaches the networks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._tree.kinds import ARRAY, TENSOR, kind_of
from typedbatch.audit.lessons import Effect, Lessons, other_values
from typedbatch.audit.report import AuditCode, Finding
from typedbatch.audit.roles import ADVANTAGES, REF_LOGP, RETURNS, REWARDS, SCORES, TERMINATED, TRUNCATED
from typedbatch.batch import Batch

_INPUTS: Final = ("obs", "response_ids", "input_ids")
_ROWS_TRIED: Final = 3
_MOST_COLUMNS: Final = 6
_FEWEST_UNAFFECTED: Final = 0.1
"""Share of rows that are not affected where no statistic of all rows is used."""


class Credit:
    """Laws of credit, tried by replays that change one field in some rows of one batch.

    Args:
        lessons: Replays of the update.
        position: Position of the batch among the arguments of the update.
        batch: The batch.
    """

    def __init__(self, lessons: Lessons, position: int, batch: Any) -> None:
        self._lessons, self._position, self._batch = lessons, position, batch
        self._fields: dict[str, Any] = {
            name: value for name, value in Batch.items(batch) if kind_of(value) in (ARRAY, TENSOR)
        }
        self._places: dict[tuple[int, ...], list[set[int]]] = {}
        self.findings: list[Finding] = []

    def examine(self) -> None:
        """Try all laws that the fields of the batch allow."""
        self._examine_ends()
        for names in (ADVANTAGES, RETURNS, REWARDS | SCORES):
            name = self._first(names)
            if name is not None:
                self._examine_own(name)
        self._examine_columns()
        self._examine_groups()
        self._examine_tokens()
        self._examine_references()
        self._examine_pairs()

    def _first(self, names: frozenset[str]) -> str | None:
        """Return the name of the first field of these that has a floating-point value per row."""
        for name, value in self._fields.items():
            if name in names and value.ndim and len(value) > _ROWS_TRIED and _is_float(value):
                return name
        return None

    def _found(self, code: AuditCode, text: str, *, is_certain: bool = True) -> None:
        self.findings.append(Finding(code, "", text, is_certain))

    def _effect(self, name: str, rows: Any, change: Any) -> Effect | None:
        """Return the effect of adding something to a field at an index."""
        changed = copy.deepcopy(self._batch)
        changed[name][rows] = changed[name][rows] + change
        return self._lessons.effect({self._position: changed})

    def _places_of(self, rows: Any, key: tuple[int, ...]) -> list[set[int]] | None:
        """Return the positions of each output that rows have, as those whose output depends on their observations."""
        if key not in self._places:
            name = next((name for name in _INPUTS if name in self._fields), None)
            if name is None:
                return None
            effect = self._effect(name, rows, 0.5) if _is_float(self._fields[name]) else self._changed_ids(name, rows)
            if effect is None:
                return None
            self._places[key] = effect.outputs
        return self._places[key]

    def _examine_ends(self) -> None:
        """Try whether rewards after the end of an episode change what its last step teaches."""
        rew, ended = self._first(REWARDS), self._ended()
        if rew is None or ended is None or ended.shape != tuple(self._fields[rew].shape):
            return
        steps = np.flatnonzero(ended.reshape(len(ended), -1).any(1))
        steps = steps[steps < len(ended) - 1]
        for last in dict.fromkeys(int(steps[len(steps) * part // 3]) for part in (1, 2) if len(steps)):
            own, later = ended.copy(), ~ended
            own[last + 1 :], later[: last + 1] = False, False
            if not later.any():
                continue
            change = 1 + np.arange(later.sum()) % 5 * 0.37
            effect = self._effect(rew, later.nonzero(), _like(self._fields[rew], change))
            places = self._places_of(own.nonzero(), (-1, last))
            if effect is None or places is None or not any(effect.gradients) or any(effect.outputs):
                continue
            used = [own & self._lessons.used(number) for number, own in enumerate(places)]
            hits = [found.keys() & own for found, own in zip(effect.gradients, used, strict=True)]
            is_partly = any(hit and self._is_partly(number, effect) for number, hit in enumerate(hits))
            if is_partly or (hits == used and any(hits) and self._ignores_ends(own)):
                self._found(
                    "TB508 wrong-target",
                    f"{rew} of steps after the end of an episode changes what its last step teaches; nothing of the "
                    "next episode follows, so cut sums and bootstrapped values where terminated or truncated",
                    is_certain=is_partly,  # A normalization has the same effect, where each episode is whole.
                )
                return

    def _ended(self) -> NDArray[np.bool_] | None:
        """Return the steps after which another episode begins, or None if the batch does not tell."""
        flags = [self._fields[name] for name in sorted(TERMINATED | TRUNCATED) if name in self._fields]
        if not any(name in self._fields for name in TERMINATED) or len({tuple(flag.shape) for flag in flags}) != 1:
            return None
        out = np.asarray(leaf_to_numpy(flags[0])).astype(bool)
        for flag in flags[1:]:
            out = out | np.asarray(leaf_to_numpy(flag)).astype(bool)
        return out

    def _is_partly(self, number: int, effect: Effect) -> bool:
        """Return True if a part of the positions of an output is affected, and not all, as by a normalization."""
        used = self._lessons.used(number)
        return len(used - effect.gradients[number].keys()) > max(2, _FEWEST_UNAFFECTED * len(used))

    def _ignores_ends(self, rows: NDArray[np.bool_]) -> bool:
        """Return True if some of these rows are terminal, and it makes no difference."""
        changed = copy.deepcopy(self._batch)
        for name in TERMINATED & self._fields.keys():
            if not bool(self._fields[name][rows.nonzero()].any()):
                return False
            changed[name][rows.nonzero()] = False
        effect = self._lessons.effect({self._position: changed})
        return effect is not None and not any(effect.gradients) and not any(effect.outputs)

    def _examine_own(self, name: str) -> None:
        """Try whether the advantage, return or reward of a row changes what this row teaches, and in which way."""
        value = self._fields[name]
        size = float(np.abs(np.asarray(leaf_to_numpy(value), dtype=float)).max(initial=0.0))
        if not np.isfinite(size):
            return
        tried: list[bool] = []
        signs: list[int] = []
        for row in self._rows_tried(len(value)):
            places = self._places_of([row], (row,))
            effects = [self._effect(name, [row], change * (10 + 10 * size)) for change in (1.0, -1.0)]
            if places is None or any(effect is None or any(effect.outputs) for effect in effects):
                return
            known = [effect for effect in effects if effect is not None]
            own, others = _divided(known, places)
            if own or others:
                tried.append(bool(own))
            signs.extend(self._signs(name, row, known[0], places))
        if len(tried) > 1 and not any(tried) and name not in RETURNS:
            self._found(
                "TB508 wrong-target" if name in REWARDS else "TB503 other-rows",
                f"{name} of a row has an effect on what other rows teach, but none on what this row does; is it that "
                "of another step?",
                is_certain=name
                in ADVANTAGES,  # A reward may be kept with the step after, and a return be bootstrapped.
            )
        if len(signs) > 1 and all(sign > 0 for sign in signs):
            self._found(
                "TB507 wrong-weight",
                f"a larger {name} of a row pushes the output of its action down, and a smaller one up; is a sign "
                "wrong?",
            )

    def _rows_tried(self, count: int) -> list[int]:
        """Return rows far from each other, and not at the ends of episodes if there are others."""
        ended = self._ended()
        rows = np.arange(count)
        if ended is not None and ended.ndim == 1 and len(ended) == count and (~ended).sum() >= _ROWS_TRIED:
            rows = rows[~ended]
        return [int(rows[(2 * part + 1) * len(rows) // (2 * _ROWS_TRIED)]) for part in range(_ROWS_TRIED)]

    def _signs(self, name: str, row: int, effect: Effect, places: list[set[int]]) -> Iterator[int]:
        """Yield the signs of the changes of the gradient by outputs of the row, where it is known which is right."""
        is_value = name in RETURNS and self._first(ADVANTAGES) is not None
        act = self._fields.get("act")
        for number, found in enumerate(effect.gradients):
            own = [found[position] for position in found.keys() & places[number]]
            largest = max(own, key=lambda change: change.size, default=None)
            if largest is None or largest.label < 0 or largest.size < max(change.size for change in found.values()):
                continue
            width = self._lessons.width(number)
            if width > 2 or (width == 1 and is_value):
                yield largest.sign
            elif width == 2 and act is not None and act.ndim == 1 and not _is_float(act):
                yield largest.sign if int(act[row]) == largest.label else -largest.sign

    def _examine_columns(self) -> None:
        """Try whether each component of the actions has an effect."""
        act = self._fields.get("act")
        if act is None or act.ndim != 2 or not 1 < act.shape[1] <= _MOST_COLUMNS or self._is_binary(act):
            return
        without = []
        for column in range(act.shape[1]):
            changed = copy.deepcopy(self._batch)
            values = changed["act"][:, column]
            if bool((values == values[0]).all()):
                return
            changed["act"][:, column] = values.flip(0) if isinstance(values, Tensor) else values[::-1].copy()
            effect = self._lessons.effect({self._position: changed})
            if effect is None:
                return
            if not any(effect.gradients) and not any(effect.outputs):
                without.append(column)
        if without and len(without) < act.shape[1]:
            text = f"act[:, {without[0]}] has no effect on the gradients, but other components have"
            self._found("TB505 unread-field", f"{text}; is another one read twice?")

    def _is_binary(self, value: Any) -> bool:
        return value.dtype in (torch.bool, np.dtype(bool))

    def _examine_groups(self) -> None:
        """Try whether the rewards of a prompt's responses change what the responses to other prompts teach."""
        name, uid = self._first(REWARDS | SCORES), self._fields.get("uid")
        if name is None or uid is None or uid.shape != (len(self._fields[name]),) or self._fields[name].ndim != 1:
            return
        keys = np.asarray(leaf_to_numpy(uid))
        first = np.flatnonzero([key == keys[0] for key in keys.tolist()])
        if len(first) < 2 or len(set(keys.tolist())) < 3:
            return
        change = 1.0 + np.arange(len(first)) ** 2 * 0.7
        effect = self._effect(name, first, _like(self._fields[name], change))
        places = self._places_of(first, (-2,))
        if effect is None or places is None or any(effect.outputs):
            return
        for number, found in enumerate(effect.gradients):
            rows, own = self._lessons.rows(number, set(found)), self._lessons.rows(number, places[number])
            others = self._lessons.rows(number, self._lessons.used(number)) - own
            if rows & others and len(others - rows) > max(2, _FEWEST_UNAFFECTED * len(others)):
                self._found(
                    "TB503 other-rows",
                    f"{name} of the responses to one prompt changes what those to some other prompts teach, and not "
                    "to all; is a baseline that of other rows than those of the same uid?",
                    is_certain=False,  # Prompts of one task may have statistics of their own.
                )
                return

    def _examine_tokens(self) -> None:
        """Try whether a penalty at a token counts for the tokens before it, and not for those after it."""
        name = next((name for name in sorted(REF_LOGP) if name in self._fields), None)
        mask = self._fields.get("response_mask")
        value = None if name is None else self._fields[name]
        if name is None or mask is None or value is None or value.ndim != 2 or value.shape != mask.shape:
            return
        counts = np.asarray(leaf_to_numpy(mask)).astype(bool)
        row = int(counts.sum(1).argmax())
        tokens = np.flatnonzero(counts[row])
        if len(tokens) < 3 or not _is_float(value):
            return
        first, last = (self._effect(name, ([row], [int(at)]), 1.0) for at in (tokens[0], tokens[-1]))
        if first is None or last is None or any(first.outputs) or any(last.outputs):
            return
        for number, (begin, end) in enumerate(zip(first.gradients, last.gradients, strict=True)):
            is_in_row = len(self._lessons.rows(number, set(begin))) == 1
            if is_in_row and len(end) == 1 < len(begin) and min(begin) < max(end):
                self._found(
                    "TB508 wrong-target",
                    f"{name} of the first token changes what later tokens teach, and that of the last one changes no "
                    "earlier ones; a return is the sum of what follows",
                )
                return

    def _examine_references(self) -> None:
        """Try whether a likelier chosen response under the reference makes a pair count more."""
        name = "ref_chosen_logp"
        if name not in self._fields or "ref_rejected_logp" not in self._fields or not _is_float(self._fields[name]):
            return
        sizes = [self._size_of_gradients(name, change) for change in (0.5, -0.5)]
        if sizes[0] is not None and sizes[1] is not None and sizes[0] < 0.999 * sizes[1]:
            self._found(
                "TB507 wrong-weight",
                f"a larger {name} makes the gradients of pairs smaller; the policy has to raise chosen responses above "
                "the reference, so are the two references exchanged?",
            )

    def _examine_pairs(self) -> None:
        """Try whether a chosen response changes what the rejected one of the same row teaches."""
        sides = [self._fields.get(name) for name in ("chosen_ids", "rejected_ids")]
        if any(side is None or side.ndim != 2 or len(side) < _ROWS_TRIED for side in sides):
            return
        tried = []
        for row in self._rows_tried(len(self._fields["chosen_ids"])):
            chosen, rejected = (self._changed_ids(name, row) for name in ("chosen_ids", "rejected_ids"))
            if chosen is None or rejected is None:
                return
            known = [*zip(chosen.gradients, chosen.outputs, rejected.outputs, strict=True)]
            others = any(found.keys() - own - other for found, own, other in known)
            if others and any(other for _, _, other in known):
                tried.append(any(found.keys() & other - own for found, own, other in known))
        if len(tried) > 1 and not any(tried):
            text = "a chosen response is compared with others than the rejected one of its row; are sides interleaved?"
            self._found("TB503 other-rows", text)

    def _changed_ids(self, name: str, row: Any) -> Effect | None:
        changed, ids = copy.deepcopy(self._batch), self._fields[name]
        mask = self._fields.get(f"{name.removesuffix('_ids')}_mask")
        there = ids[mask.astype(bool) if isinstance(mask, np.ndarray) else mask.bool()] if mask is not None else ids
        changed[name][row] = other_values(changed[name][row], there)
        return self._lessons.effect({self._position: changed})

    def _size_of_gradients(self, name: str, change: float) -> float | None:
        changed = copy.deepcopy(self._batch)
        changed[name] = changed[name] + change
        return self._lessons.size({self._position: changed})


def _is_float(value: Any) -> bool:
    return value.is_floating_point() if isinstance(value, Tensor) else value.dtype.kind == "f"


def _like(value: Any, numbers: NDArray[Any]) -> Any:
    """Return numbers as a tensor or array as the value is, with further dimensions of size 1."""
    shaped = numbers.reshape(-1, *([1] * (value.ndim - 1))) if value.ndim == 1 else numbers
    return torch.as_tensor(shaped).to(value) if isinstance(value, Tensor) else shaped.astype(value.dtype)


def _divided(effects: list[Effect], places: list[set[int]]) -> tuple[set[int], set[int]]:
    """Return the positions of the row whose gradient changes, and of others, in outputs that have the row."""
    own: set[int] = set()
    others: set[int] = set()
    for effect in effects:
        for number, found in enumerate(effect.gradients):
            if places[number]:
                own |= found.keys() & places[number]
                others |= found.keys() - places[number]
    return own, others
