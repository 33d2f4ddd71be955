"""Credit: which rewards and advantages change what each row of a batch teaches the networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor

from typedbatch.audit.lessons import Effect
from typedbatch.audit.probe import Probe, is_float, is_part, like
from typedbatch.audit.roles import ADVANTAGES, RETURNS, REWARDS, SCORES

_MOST_COLUMNS: Final = 6


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
                used = self.lessons.used(number)
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
        if len(tried) > 1 and not any(tried) and name not in RETURNS:
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

    def _signs(self, name: str, row: int, effect: Effect, places: list[set[int]]) -> Iterator[int]:
        """Yield the signs of the changes of the gradient by outputs of the row, where it is known which is right."""
        is_value = name in RETURNS and self.first(ADVANTAGES) is not None
        act = self.fields.get("act")
        for number, found in enumerate(effect.gradients):
            own = [found[position] for position in found.keys() & places[number]]
            largest = max(own, key=lambda change: change.size, default=None)
            if largest is None or largest.label < 0:
                continue
            width = self.lessons.width(number)
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
            changed = self.changed()
            values = changed["act"][:, column]
            if bool((values == values[0]).all()):
                return
            changed["act"][:, column] = values.flip(0) if isinstance(values, Tensor) else values[::-1].copy()
            effect = self.effect_of(changed)
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
