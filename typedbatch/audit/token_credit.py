"""Credit of tokens: which rewards, references and tokens change what is taught at each output of a language model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typedbatch.audit.probe import ROWS_TRIED, Probe, is_float, is_part, like
from typedbatch.audit.roles import OLD_LOGP, REF_LOGP, REWARDS, SCORES


class TokenCredit(Probe):
    """Laws of groups, pairs and tokens, tried by replays that change one field in some of them."""

    def examine(self) -> None:
        """Try all laws that the fields of the batch allow."""
        self._examine_groups()
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
            rows, own = self.lessons.rows(number, set(found)), self.lessons.rows(number, places[number])
            others = self.lessons.rows(number, self.lessons.used(number)) - own
            if rows & others and is_part(rows, others):
                self.found(
                    "TB503 other-rows",
                    f"{name} of the responses to one prompt changes what those to some other prompts teach, and not "
                    "to all; is a baseline that of other rows than those of the same uid?",
                    is_certain=False,  # Prompts of one task may have statistics of their own.
                )
                return

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
            is_in_row = len(self.lessons.rows(number, set(begin))) == 1
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
            rows = self.lessons.rows(number, sees)
            is_causal = len(rows) == 1 and len(sees) < self.lessons.per_row(number) - at
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
            known = [*zip(chosen.gradients, chosen.outputs, rejected.outputs, strict=True)]
            others = any(found.keys() - own - other for found, own, other in known)
            if others and any(other for _, _, other in known):
                tried.append(any(found.keys() & other - own for found, own, other in known))
        if len(tried) > 1 and not any(tried):
            text = "a chosen response is compared with others than the rejected one of its row; are sides interleaved?"
            self.found("TB503 other-rows", text)
