"""Credit: which rewards, advantages and tokens change the gradients of each row of a batch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._core.kinds import ARRAY, TENSOR, kind_of
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.output_gradients import Effect, OutputGradients, other_values
from typedbatch.audit.report import AuditCode, Finding
from typedbatch.audit.roles import Roles
from typedbatch.audit.tags import ADVANTAGES, OLD_LOGP, REF_LOGP, RETURNS, REWARDS, SCORES, TERMINATED, TRUNCATED

ROWS_TRIED: Final = 3
_INPUTS: Final = ("obs", "response_ids", "input_ids")
_FEWEST_UNAFFECTED: Final = 0.1
"""Share of rows that are not affected where no statistic of all rows is used."""
_MOST_COLUMNS: Final = 6
_SAME: Final = 0.999
"""Least correlation of two fields that say the same."""


class Probe:
    """Replays of an update on the batch at a position of its arguments, with other values in some rows."""

    def __init__(self, outputs: OutputGradients, roles: Roles, position: int, batch: Any) -> None:
        self.outputs: OutputGradients = outputs
        self._roles, self._position, self._batch = roles, position, batch
        self.fields: dict[str, Any] = {
            name: value for name, value in roles.fields(batch).items() if kind_of(value) in (ARRAY, TENSOR)
        }
        self._places: dict[tuple[int, ...], list[set[int]]] = {}
        self.findings: list[Finding] = []

    def first(self, names: frozenset[str]) -> str | None:
        """Return the name of the first field of these that has a floating-point value per row."""
        for name, value in self.fields.items():
            if name in names and value.ndim and len(value) > ROWS_TRIED and is_float(value):
                return name
        return None

    def found(self, code: AuditCode, text: str, *, is_certain: bool = True) -> None:
        """Add a finding, or a note if it is not certain."""
        self.findings.append(Finding(code, "", self._roles.shown(text), is_certain))

    def effect(self, name: str, rows: Any, change: Any) -> Effect | None:
        """Return the effect of adding something to a field at an index."""
        values = copy.deepcopy(self.fields[name])
        values[rows] = values[rows] + change
        return self.effect_of({name: values})

    def changed_ids(self, name: str, row: Any) -> Effect | None:
        """Return the effect of other integers in a field at an index: of tokens, those that masks have somewhere."""
        ids = self.fields[name]
        mask = self.fields.get(f"{name.removesuffix('_ids')}_mask")
        there = ids[mask.astype(bool) if isinstance(mask, np.ndarray) else mask.bool()] if mask is not None else ids
        values = copy.deepcopy(ids)
        values[row] = other_values(values[row], there)
        return self.effect_of({name: values})

    def places_of(self, rows: Any, key: tuple[int, ...]) -> list[set[int]] | None:
        """Return the positions of each output that rows have, as those whose output depends on their observations."""
        if key not in self._places:
            name = next((name for name in _INPUTS if name in self.fields), None)
            if name is None:
                return None
            effect = self.effect(name, rows, 0.5) if is_float(self.fields[name]) else self.changed_ids(name, rows)
            if effect is None:
                return None
            self._places[key] = effect.outputs
        return self._places[key]

    def ended(self) -> NDArray[np.bool_] | None:
        """Return the steps after which another episode begins, or None if the batch does not tell."""
        names = (TERMINATED | TRUNCATED) & self.fields.keys()
        if not TERMINATED & names or len({tuple(self.fields[name].shape) for name in names}) != 1:
            return None
        out: NDArray[np.bool_] = np.logical_or.reduce([self.array(name).astype(bool) for name in names])
        return out

    def rows_tried(self, count: int) -> list[int]:
        """Return rows far from each other, and not at the ends of episodes if there are others."""
        ended = self.ended()
        rows = np.arange(count)
        if ended is not None and ended.ndim == 1 and len(ended) == count and (~ended).sum() >= ROWS_TRIED:
            rows = rows[~ended]
        return [int(rows[(2 * part + 1) * len(rows) // (2 * ROWS_TRIED)]) for part in range(ROWS_TRIED)]

    def effect_of(self, fields: Mapping[str, Any]) -> Effect | None:
        """Return the effect of other values in some fields."""
        return self.outputs.effect({self._position: self._roles.changed(self._batch, fields)})

    def size_of_gradients(self, name: str, change: float) -> float | None:
        """Return the norm of the gradients after adding something to a field."""
        changed = self._roles.changed(self._batch, {name: self.fields[name] + change})
        return self.outputs.size({self._position: changed})

    def array(self, name: str) -> NDArray[Any]:
        """Return a field as an array."""
        return np.asarray(leaf_to_numpy(self.fields[name]))


def is_float(value: Any) -> bool:
    """Return True if values are of a floating-point dtype."""
    return value.is_floating_point() if isinstance(value, Tensor) else value.dtype.kind == "f"


def is_part(affected: Set[int], used: set[int]) -> bool:
    """Return True if some of these are not affected, so that no statistic of all of them is used."""
    return len(used - affected) > max(2, _FEWEST_UNAFFECTED * len(used))


def like(value: Any, numbers: NDArray[Any]) -> Any:
    """Return numbers as a tensor or array, as a value is."""
    return torch.as_tensor(numbers).to(value) if isinstance(value, Tensor) else numbers.astype(value.dtype)


class Credit(Probe):
    """Laws of the rows of a batch, tried by replays that change one field in some of them."""

    def examine(self) -> None:
        """Try all laws that the fields of the batch allow."""
        self._examine_ends()
        for names in (ADVANTAGES, RETURNS, REWARDS | SCORES):
            name = self.first(names)
            if name is not None:
                self._examine_own(name)
        self._examine_columns()

    def _examine_ends(self) -> None:
        """Try whether rewards after the end of an episode change what its last step teaches."""
        rew, ended = self.first(REWARDS), self.ended()
        if rew is None or ended is None or ended.shape != tuple(self.fields[rew].shape):
            return
        steps = np.flatnonzero(ended.reshape(len(ended), -1).any(1))
        steps = steps[steps < len(ended) - 1]
        for last in dict.fromkeys(int(steps[len(steps) * part // 3]) for part in (1, 2) if len(steps)):
            own, later = ended.copy(), ~ended
            own[last + 1 :], later[: last + 1] = False, False
            later[(last + len(ended)) // 2 + 1 :] = False  # Steps after these tell whether a statistic of all is used.
            if not later.any():
                continue
            change = 1 + np.arange(later.sum()) % 5 * 0.37
            effect = self.effect(rew, later.nonzero(), like(self.fields[rew], change))
            places = self.places_of(own.nonzero(), (-1, last))
            if effect is None or places is None or not any(effect.gradients) or any(effect.outputs):
                continue
            for number, (found, at) in enumerate(zip(effect.gradients, places, strict=True)):
                used = self.outputs.used(number)
                if found.keys() & at & used and is_part(found.keys(), used):
                    self.found(
                        "TB508 wrong-target",
                        f"{rew} of steps after the end of an episode changes what its last step teaches; nothing of "
                        "the next episode follows, so cut sums and bootstrapped values where terminated or truncated",
                    )
                    return

    def _examine_own(self, name: str) -> None:
        """Try whether the advantage, return or reward of a row changes what this row teaches, and in which way."""
        value = self.fields[name]
        if name in REWARDS | SCORES and self._is_said_twice(name):
            return  # Of two fields that say the same, one alone cannot be changed.
        size = float(np.abs(self.array(name).astype(float)).max(initial=0.0))
        if not np.isfinite(size):
            return
        tried: list[bool] = []
        signs: list[int] = []
        for row in self.rows_tried(len(value)):
            places = self.places_of([row], (row,))
            effects = [self.effect(name, [row], change * (10 + 10 * size)) for change in (1.0, -1.0)]
            if places is None or any(effect is None or any(effect.outputs) for effect in effects):
                return
            known = [effect for effect in effects if effect is not None]
            own, others = _divided(known, places)
            if own or others:
                tried.append(bool(own))
            signs.extend(self._signs(name, row, known[0], places))
        is_token = "obs" not in self.fields  # A token follows from the output before it.
        if len(tried) > 1 and not any(tried) and name not in RETURNS and not is_token:
            self.found(
                "TB508 wrong-target" if name in REWARDS else "TB503 other-rows",
                f"{name} of a row has an effect on what other rows teach, but none on what this row does; is it that "
                "of another step?",
                is_certain=name in ADVANTAGES,  # A reward may be kept with the step after.
            )
        if len(signs) > 1 and all(sign > 0 for sign in signs):
            self.found(
                "TB507 wrong-weight",
                f"a larger {name} of a row pushes the output of its action down, and a smaller one up; is a sign "
                "wrong?",
            )

    def _is_said_twice(self, name: str) -> bool:
        """Return True if another field has the values of a field, or the parts that they are sums or means of."""
        mine = self.array(name)
        for other, value in self.fields.items():
            if (
                other == name
                or not is_float(value)
                or value.ndim > mine.ndim + 1
                or value.shape[: mine.ndim] != mine.shape
            ):
                continue
            array = self.array(other)
            sums = array if array.ndim == mine.ndim else array.sum(-1)
            apart = np.corrcoef(sums.ravel(), mine.ravel()) if np.ptp(sums) and np.ptp(mine) else np.zeros((2, 2))
            if apart[0, 1] > _SAME:
                return True
        return False

    def _signs(self, name: str, row: int, effect: Effect, places: list[set[int]]) -> Iterator[int]:
        """Yield the signs of the changes of the gradient by outputs of the row, where it is known which is right."""
        is_value = name in RETURNS and self.first(ADVANTAGES) is not None
        act = self.fields.get("act")
        for number, found in enumerate(effect.gradients):
            own = [found[position] for position in found.keys() & places[number]]
            largest = max(own, key=lambda change: change.size, default=None)
            if largest is None or largest.label < 0:
                continue
            width = self.outputs.width(number)
            if width > 2 or (width == 1 and is_value):
                yield largest.sign
            elif width == 2 and act is not None and act.ndim == 1 and not is_float(act):
                yield largest.sign if int(act[row]) == largest.label else -largest.sign

    def _examine_columns(self) -> None:
        """Try whether each component of the actions has an effect."""
        act = self.fields.get("act")
        if act is None or act.ndim != 2 or not 1 < act.shape[1] <= _MOST_COLUMNS:
            return
        if act.dtype in (torch.bool, np.dtype(bool)):
            return
        without = []
        for column in range(act.shape[1]):
            changed = copy.deepcopy(act)
            values = changed[:, column]
            if bool((values == values[0]).all()):
                return
            changed[:, column] = values.flip(0) if isinstance(values, Tensor) else values[::-1].copy()
            effect = self.effect_of({"act": changed})
            if effect is None:
                return
            if not any(effect.gradients) and not any(effect.outputs):
                without.append(column)
        if without and len(without) < act.shape[1]:
            text = f"act[:, {without[0]}] has no effect on the gradients, but other components have"
            self.found("TB505 unread-field", f"{text}; is another one read twice?")


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


class TokenCredit(Probe):
    """Laws of groups, pairs and tokens, tried by replays that change one field in some of them."""

    def examine(self) -> None:
        """Try all laws that the fields of the batch allow."""
        self._examine_groups()
        self._examine_outside()
        self._examine_penalties()
        self._examine_own_tokens()
        self._examine_references()
        self._examine_pairs()

    def _examine_groups(self) -> None:
        """Try whether the rewards of a prompt's responses change what the responses to other prompts teach."""
        name, uid = self.first(REWARDS | SCORES), self.fields.get("uid")
        if name is None or uid is None or uid.shape != (len(self.fields[name]),) or self.fields[name].ndim != 1:
            return
        keys = self.array("uid")
        first = np.flatnonzero([key == keys[0] for key in keys.tolist()])
        if len(first) < 2 or len(set(keys.tolist())) < 3:
            return
        change = 1.0 + np.arange(len(first)) ** 2 * 0.7
        effect = self.effect(name, first, like(self.fields[name], change))
        places = self.places_of(first, (-2,))
        if effect is None or places is None or any(effect.outputs):
            return
        for number, found in enumerate(effect.gradients):
            rows, own = self.outputs.rows(number, set(found)), self.outputs.rows(number, places[number])
            others = self.outputs.rows(number, self.outputs.used(number)) - own
            if rows & others and is_part(rows, others):
                self.found(
                    "TB503 other-rows",
                    f"{name} of the responses to one prompt changes what those to some other prompts teach, and not "
                    "to all; is a baseline that of other rows than those of the same uid?",
                    is_certain=False,  # Prompts of one task may have statistics of their own.
                )
                return

    def _examine_outside(self) -> None:
        """Try whether advantages outside the mask, which are 0, change what tokens inside of it teach."""
        mask = next((name for name in ("loss_mask", "response_mask") if name in self.fields), None)
        name = next((name for name in sorted(ADVANTAGES) if name in self.fields), None)
        if name is None or mask is None or self.fields[name].shape != self.fields[mask].shape:
            return
        outside = ~self.array(mask).astype(bool)
        if not is_float(self.fields[name]) or not outside.any() or self.array(name)[outside].any():
            return
        outside[np.flatnonzero(outside.any(-1))[0] + 1 :] = False
        effect = self.effect(name, outside.nonzero(), 1.0)
        if effect is None or any(effect.outputs):
            return
        known = [found.keys() & self.outputs.used(number) for number, found in enumerate(effect.gradients)]
        if any(known):
            text = f"{name} outside {mask} has an effect on what tokens inside of it teach; use the mask in means too"
            # A sum over a sequence may rely on zeros; a mean of all sequences may not, as it counts them.
            is_certain = any(len(self.outputs.rows(number, found)) > 1 for number, found in enumerate(known))
            self.found("TB511 replay-differs", text, is_certain=is_certain)

    def _examine_penalties(self) -> None:
        """Try whether a penalty at a token counts for the tokens before it, and not for those after it."""
        name = next((name for name in sorted(REF_LOGP) if name in self.fields), None)
        mask = self.fields.get("response_mask")
        value = None if name is None else self.fields[name]
        if name is None or mask is None or value is None or value.ndim != 2 or value.shape != mask.shape:
            return
        row, tokens = self._longest()
        if len(tokens) < 3 or not is_float(value):
            return
        first, last = (self.effect(name, ([row], [int(at)]), 1.0) for at in (tokens[0], tokens[-1]))
        if first is None or last is None or any(first.outputs) or any(last.outputs):
            return
        for number, (begin, end) in enumerate(zip(first.gradients, last.gradients, strict=True)):
            is_in_row = len(self.outputs.rows(number, set(begin))) == 1
            if is_in_row and len(end) == 1 < len(begin) and min(begin) < max(end):
                self.found(
                    "TB508 wrong-target",
                    f"{name} of the first token changes what later tokens teach, and that of the last one changes no "
                    "earlier ones; a return is the sum of what follows",
                )
                return

    def _longest(self) -> tuple[int, NDArray[np.intp]]:
        """Return the row of the longest response, and the positions of its tokens."""
        mask = self.array("response_mask").astype(bool)
        row = int(mask.sum(1).argmax())
        return row, np.flatnonzero(mask[row])

    def _examine_own_tokens(self) -> None:
        """Try whether what is learned about a token is learned at an output that sees this token."""
        ids, mask = self.fields.get("response_ids"), self.fields.get("response_mask")
        if ids is None or mask is None or ids.ndim != 2 or mask.shape != ids.shape:
            return
        row, tokens = self._longest()
        names = [
            name
            for name in (*sorted(OLD_LOGP), "teacher_logp", *sorted(REF_LOGP))
            if name in self.fields and is_float(self.fields[name]) and self.fields[name].shape[:2] == ids.shape
        ]
        if not names or len(tokens) < 4:
            return
        at = int(tokens[len(tokens) // 2])
        effect = self.effect(names[0], ([row], [at]), 0.5)
        seen = self.changed_ids("response_ids", ([row], [at]))
        if effect is None or seen is None or any(effect.outputs):
            return
        for number, (found, sees) in enumerate(zip(effect.gradients, seen.outputs, strict=True)):
            rows = self.outputs.rows(number, sees)
            is_causal = len(rows) == 1 and len(sees) < self.outputs.per_row(number) - at
            if len(found) == 1 and found.keys() <= sees and is_causal:
                self.found(
                    "TB503 other-rows",
                    f"{names[0]} of a token meets an output that has seen this token; the logits for a token are those "
                    "at the one before it",
                )
                return

    def _examine_references(self) -> None:
        """Try whether a likelier chosen response under the reference makes a pair count more."""
        name = "ref_chosen_logp"
        if name not in self.fields or "ref_rejected_logp" not in self.fields or not is_float(self.fields[name]):
            return
        sizes = [self.size_of_gradients(name, change) for change in (0.5, -0.5)]
        if sizes[0] is not None and sizes[1] is not None and sizes[0] < 0.999 * sizes[1]:
            self.found(
                "TB507 wrong-weight",
                f"a larger {name} makes the gradients of pairs smaller; the policy has to raise chosen responses above "
                "the reference, so are the two references exchanged?",
            )

    def _examine_pairs(self) -> None:
        """Try whether a chosen response changes what the rejected one of the same row teaches."""
        sides = [self.fields.get(name) for name in ("chosen_ids", "rejected_ids")]
        if any(side is None or side.ndim != 2 or len(side) < ROWS_TRIED for side in sides):
            return
        tried = []
        for row in self.rows_tried(len(self.fields["chosen_ids"])):
            chosen, rejected = (self.changed_ids(name, row) for name in ("chosen_ids", "rejected_ids"))
            if chosen is None or rejected is None:
                return
            pairs = enumerate(zip(chosen.gradients, chosen.outputs, rejected.outputs, strict=True))
            rows = [[self.outputs.rows(number, set(some)) for some in pair] for number, pair in pairs]
            # A margin may be 0 whatever the ids; it tells something where it is that with another response.
            if any(found - own - other for found, own, other in rows):
                tried.append(any(found & other - own for found, own, other in rows))
        if len(tried) > 1 and not any(tried):
            text = "a chosen response is compared with others than the rejected one of its row; are sides interleaved?"
            self.found("TB503 other-rows", text)
