"""Checks of the fields of an update: those that are read, and what is in them."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.report import here
from typedbatch.audit.tags import DIFFERENCES, LOSS_MASKS, MUST_READ, NEXT_OBS, OBS, OLD_LOGP, TERMINATED, Tag, listed
from typedbatch.audit.trace import Check, Operation

_LARGEST_OF_ENGINES: Final = 0.05
"""Largest mean difference, in nats, of one model in two engines of other precision."""
_COARSE: Any = (torch.bfloat16, torch.float16)
_FEWEST_RESPONSES: Final = 4
_CHANGED: Final[dict[tuple[int, str, str], Any]] = {}
"""References to tensors that were changed in place, by any audited update, by id and place."""
_REPEATABLE: Final = frozenset(
    {"clamp_", "clip_", "abs_", "relu_", "nan_to_num_", "fill_", "zero_", "copy_", "clamp_min_", "clamp_max_"}
)
"""Changes that are the same when they are made again."""
_IN_PLACE: Final = frozenset({"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"})
_OF_LOSSES: Final = frozenset({"rew", "rewards", "adv", "advantages", "returns"})


_FEWEST = 16


class Reads(Check, code="TB505 unread-field"):
    """The fields that an update reads."""

    def _begin(self) -> None:
        self._learns_from: set[int] = set()
        self._in_losses: set[str] = set()
        self._masks_differ = False
        self._apart = 0.0
        """Mean difference of ``old_logp`` and ``rollout_logp`` of the tokens that count."""

    def backward(self, loss: Tensor) -> None:
        for field in self.trace.tag_of(loss).fields:
            self._learns_from.add(field.origin)
            self._in_losses.add(field.name.split(".")[0])

    def end(self) -> None:
        origins = self.trace.origins
        read = set().union(*origins.read.values())
        for origin, names in sorted(origins.read.items()):
            if origin < 0:
                continue
            there = {name for name in origins.fields_of(origin) if "." not in name}
            unread = (there & MUST_READ) - read - origins.computed
            unread -= origins.blank
            read |= unread  # It is reported once, for the batch that the others were made of.
            if unread:
                owner = origins.classes[origin][0].__name__
                text = f"the update reads {listed(names)} of {owner}, but never {listed(unread)}"
                self._found(text, place="", is_certain=origin in self._learns_from and "weight" in unread)
            self._find_next_obs(origin, names, there)
        if self._apart > _LARGEST_OF_ENGINES and not read & {"rollout_logp", "is_weights"}:
            text = f"rollout_logp is {self._apart:.2g} from old_logp in the mean, and is never read"
            text += "; the samples are of other weights, which the ratio to old_logp does not correct"
            self._found(text, place="", is_certain=False)
        ignored = self.trace.given - origins.used - set(origins.read)
        if ignored and self._learns_from - ignored and not self.trace.given - ignored:
            self._found("the update never reads the batch that it is given, and learns from another one", place="")
        if "response_mask" in self._in_losses and not LOSS_MASKS & read and self._masks_differ:
            self._found("the loss reads response_mask, which includes tokens of tools, but never loss_mask", place="")

    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = self.trace.roles.fields(batch)
        if name == "response_mask" and "loss_mask" in fields and fields["loss_mask"].shape == value.shape:
            self._masks_differ = self._masks_differ or bool((value != fields["loss_mask"]).any())
        if name == "old_logp" and not self._apart:
            mask = "response_mask" if fields.get("loss_mask") is None else "loss_mask"  # a tool's have no rollout_logp
            others: list[Any] = [fields.get(other) for other in ("rollout_logp", mask)]
            if all(isinstance(other, Tensor) and other.shape == value.shape for other in others):
                apart = (value.float() - others[0].float()).abs()[others[1].bool()]
                self._apart = float(apart.mean()) if apart.numel() else 0.0

    def _find_next_obs(self, origin: int, names: set[str], there: set[str]) -> None:
        if NEXT_OBS & names or not NEXT_OBS & there or origin not in self._learns_from:
            return
        if TERMINATED & names and TERMINATED & self._in_losses:
            text = f"the update reads {listed(names)}, but never {listed(NEXT_OBS & there)}"
            self._found(text, place="", is_certain=False)


class Dtypes(Check, code="TB510 suspect-values", operations=DIFFERENCES):
    """Log-probabilities of a dtype that is exact enough for a ratio."""

    def operation(self, operation: Operation) -> None:
        for tensor, tag in zip(operation.tensors, operation.tags, strict=True):
            if tag.is_column(OLD_LOGP) and isinstance(tensor, Tensor) and tensor.dtype in _COARSE:
                assert tag.column is not None
                self._found(
                    f"{tag.column.name} is {str(tensor.dtype).removeprefix('torch.')}, which is exact to about 1 %; "
                    "keep log-probabilities in float32, as the ratio is off by as much",
                    place="",
                )


class Changes(Check, code="TB510 suspect-values"):
    """Fields that an update changes: none twice in place, and none that is set for a loss but never read."""

    def _begin(self) -> None:
        self._set: dict[tuple[int, str], str] = {}

    def operation(self, operation: Operation) -> None:
        name, tensor, tag = operation.name, operation.tensors[0], operation.tags[0]
        if (
            name in _REPEATABLE
            or not (name in _IN_PLACE or (name[-1:] == "_" and name[:1] != "_"))
            or tag.column is None
            or tag.from_model
            or not isinstance(tensor, Tensor)
        ):
            return
        base = tensor if tensor._base is None else tensor._base  # torch has no public name for it
        key = (id(base), here(), f"{tensor.storage_offset()} {tuple(tensor.shape)}")
        before = _CHANGED.get(key)
        if before is not None and before() is base:
            text = f"{tag.column.name} is changed in place again, by {name.strip('_')}; compute new values instead"
            self._found(text)
        _CHANGED[key] = weakref.ref(base, lambda _: _CHANGED.pop(key, None))

    def written(self, batch: Any, name: str) -> None:
        if name in _OF_LOSSES:
            self._set[id(batch), name] = here()

    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        self._set = {key: place for key, place in self._set.items() if key[1] != name}

    def end(self) -> None:
        for (_, name), place in self._set.items() if self.trace.backwards else ():
            text = f"{name} is set here, and never read afterwards; is it set too late?"
            self._found(text, place=place, code="TB505 unread-field")


class Inputs(Check, code="TB503 other-rows"):
    """The way from a field to a network: ``obs`` and ``obs_next`` are transformed alike."""

    def _begin(self) -> None:
        self._paths: dict[str, dict[tuple[str, ...], tuple[str, str]]] = {"obs": {}, "obs_next": {}}

    def operation(self, operation: Operation) -> None:
        first = operation.tags[0]
        if first.models or not first.fields or not any(tag.models and not tag.fields for tag in operation.tags[1:]):
            return
        for name, roles in (("obs", OBS), ("obs_next", NEXT_OBS)):
            if all(field.name.split(".")[0] in roles | {"act"} for field in first.fields) and first.has_any(roles):
                models = frozenset().union(*(tag.models for tag in operation.tags[1:]))
                self._paths[name].setdefault((*first.path, "->", operation.name), (here(), ", ".join(sorted(models))))

    def end(self) -> None:
        now, after = self._paths["obs"], self._paths["obs_next"]
        if not now or not after or set(now) & set(after):
            return
        (path, (_, _)), (other, (place, network)) = next(iter(now.items())), next(iter(after.items()))
        if path[-1] != other[-1]:
            return
        text = f"{network} takes {_shown('obs_next', other)}, but obs goes through {_shown('obs', path)}"
        self._found(text, place=place)


def _shown(name: str, path: tuple[str, ...]) -> str:
    return f"{name} {'after ' + ', '.join(path[:-2]) if path[:-2] else 'as it is'}"


class Observations(Check, code="TB510 suspect-values"):
    """The observations of a rollout: as many different ones as there are next observations."""

    def _begin(self) -> None:
        self._seen: set[int] = set()

    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        if name not in OBS or (tag is not None and (tag.rows is None or tag.rows.origin in self._seen)):
            return
        if tag is not None and tag.rows is not None:
            self._seen.add(tag.rows.origin)
        fields = self.trace.roles.fields(batch)
        other = fields.get("obs_next")
        self._find_constant(value)
        if not isinstance(value, (Tensor, np.ndarray)) or not isinstance(other, (Tensor, np.ndarray)):
            return
        if getattr(other, "shape", None) != value.shape or value.ndim < 2 or len(value) < _FEWEST:
            return
        now, after = _rows_of(value), _rows_of(other)
        if 2 * len(set(now)) < len(set(after)):
            text = f"obs has {len(set(now))} different rows of {len(value)}, but obs_next has {len(set(after))}"
            self._found(f"{text}; is obs kept up to date?")
        truncated = fields.get("truncated")
        if truncated is not None and truncated.shape == (len(now),) and truncated.any():
            self._find_reset(now, after, np.flatnonzero(np.asarray(leaf_to_numpy(truncated))))

    def _find_reset(self, now: list[bytes], after: list[bytes], cut: NDArray[np.intp]) -> None:
        """Note truncated rows whose next observation is the first one of the next episode."""
        index = {row: number for number, row in enumerate(now)}
        apart = Counter(index[row] - number for number, row in enumerate(after) if row in index)
        by, count = apart.most_common(1)[0] if apart else (0, 0)
        if by <= 0 or 2 * count < len(now):
            return  # The rows are in no order of time.
        same = [number for number in cut if number + by < len(now) and after[number] == now[number + by]]
        if same and len(same) == sum(number + by < len(now) for number in cut):
            text = f"obs_next of {len(same)} truncated rows is obs of the step after, the first one of the next episode"
            self._found(f"{text}; is it final_obs?", is_certain=False)

    def _find_constant(self, value: Any) -> None:
        if not isinstance(value, (Tensor, np.ndarray)) or value.ndim < 2 or len(value) < _FEWEST // 2:
            return
        array = np.asarray(leaf_to_numpy(value))
        # A constant observation may be of integers.
        if array.dtype.kind == "f" and (array == array[:1]).all() and (array % 1 != 0).any():
            text = f"obs is the same at all {len(value)} steps; is one array stored again and again?"
            self._found(text, is_certain=False)


def _rows_of(value: Any) -> list[bytes]:
    return [row.tobytes() for row in np.asarray(leaf_to_numpy(value))]


class Ends(Check, code="TB510 suspect-values"):
    """The tokens behind the masks of responses: padding, rather than the end that is to be learned."""

    def _begin(self) -> None:
        self._is_noted = False

    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        fields = self.trace.roles.fields(batch)
        if name != "response_ids" or self._is_noted or "response_mask" not in fields or value.ndim != 2:
            return
        ids, mask = (np.asarray(leaf_to_numpy(fields[key])) for key in (name, "response_mask"))
        if ids.shape != mask.shape:
            return
        end = _end_behind(ids, mask.astype(bool))
        if end is not None:
            self._is_noted = True
            text = (
                f"response_mask ends before token {end} in each response, and never has it; is the end to be learned?"
            )
            self._found(text, place="", is_certain=False)


def _end_behind(ids: Any, mask: Any) -> int | None:
    """Return the token that is behind all responses and in none, if it is not the one that all are padded with."""
    lengths = mask.shape[1] - mask[:, ::-1].argmax(1)
    rows = np.flatnonzero(mask.any(1) & (lengths < mask.shape[1]))
    behind = ids[rows, lengths[rows]]
    if len(rows) < _FEWEST_RESPONSES or (behind != behind[0]).any() or (ids[mask] == behind[0]).any():
        return None
    is_later = np.arange(mask.shape[1]) > lengths[rows, None]
    return int(behind[0]) if is_later.any() and (ids[rows][is_later] != behind[0]).any() else None
