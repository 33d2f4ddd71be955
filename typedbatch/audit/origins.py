"""Origins of batches: which fields of which batch are read, and which rows they hold."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from inspect import BoundArguments, signature
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._C import DisableTorchFunction
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.distributions import Distribution

from typedbatch._core.kinds import ARRAY, BATCH, KINDS, TENSOR
from typedbatch.audit.report import function_here, here
from typedbatch.audit.roles import Roles
from typedbatch.audit.tags import MUST_READ, UNKNOWN, Columns, OriginField, OriginRows, Tag, Tags
from typedbatch.batch import Batch
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, returns
from typedbatch.rows import grouping


@dataclass(slots=True)
class _Known:
    """A batch that has been used."""

    reference: weakref.ref[Any]
    origin: int
    prefix: str
    leaves: tuple[int, ...]


class Origins:
    """The batches that an update reads.

    A batch of which no leaf is known yet begins an origin: its rows are numbered. Batches made from its leaves, by any
    operation that torch runs, belong to the same origin.
    """

    def __init__(self, tags: Tags, roles: Roles, tell: Callable[..., None]) -> None:
        self._tags, self._roles, self._tell = tags, roles, tell
        self._known: dict[int, _Known] = {}
        self._columns: dict[tuple[int, str], list[weakref.ref[Any]]] = {}
        self._reads: dict[tuple[str, str], set[str]] = {}
        self.count: int = 0
        """Number of origins so far."""
        self.used: set[int] = set()
        """Numbers of the origins of batches that an operation took."""
        self.blank: set[str] = set()
        """Names of fields of losses whose values are all the same, as those of a required field that is not used."""
        self.computed: set[str] = set()
        """Names of fields that a model computed in the update, as new priorities are."""
        self.read: dict[int, set[str]] = {}
        """Names of the fields read, by origin."""
        self.pairs: list[tuple[str, str, dict[str, OriginRows], dict[str, Any]]] = []
        """Batches whose fields are of different rows: class, place, rows and identifiers of prompts by path."""
        self.classes: dict[int, list[type]] = {}
        """Classes of the batches of each origin, in the order in which they were read."""

    def close(self) -> None:
        """Forget the functions that are told of events, which hold what holds this object."""
        self._tell = lambda *_: None

    def table(self) -> dict[str, set[str]]:
        """Return the names of the fields read, by class of batch and function."""
        return {f"{owner} in {function}": names for (owner, function), names in self._reads.items()}

    def fields_of(self, origin: int) -> set[str]:
        """Return the names of all fields that batches of an origin have had."""
        return {name for number, name in self._columns if number == origin}

    def whole(self, origin: int, name: str) -> Any:
        """Return the longest column that a field of an origin has had."""
        values = [reference() for reference in self._columns.get((origin, name), [])]
        return max((value for value in values if value is not None), key=len, default=None)

    def column(self, rows: OriginRows | None, names: frozenset[str]) -> Any:
        """Return the values of a field at these rows, or None if no batch of the origin has them."""
        if rows is None:
            return None
        for name in sorted(names):
            for reference in reversed(self._columns.get((rows.origin, name), [])):
                value: Any = reference()
                tag = None if value is None else self._tags.of(value)
                taken = _at(value, tag.rows, rows) if tag is not None and tag.rows is not None else None
                if taken is not None:
                    return taken
        return None

    def register(self, batch: Any) -> int:
        """Tag the leaves of a batch that are not known yet, and return the number of its origin."""
        known = self._known.get(id(batch))
        if known is not None and known.reference() is batch:
            ids = _ids(batch)
            if ids != known.leaves:
                known.leaves = ids
                self._tag_new(batch, known.origin, known.prefix)
            return known.origin
        self._roles.learn(type(batch))
        leaves = self._leaves(batch, "")
        tagged = [tag for leaf in leaves.values() if (tag := self._tags.of(leaf)) is not None and tag.rows is not None]
        different = self._unequal(leaves)
        if different:
            return self._begin_pairs(batch, leaves, different)
        numbers = [tag.rows.origin for tag in tagged if tag.rows is not None]
        if numbers:
            origin = max(set(numbers), key=numbers.count)
        else:
            computed = [field.origin for leaf in leaves.values() for field in (self._tags.of(leaf) or UNKNOWN).fields]
            origin = computed[0] if computed and len(set(computed)) == 1 and tagged else self.count
            self.count = max(self.count, origin + 1)
        self._remember(batch, origin, "")
        self._tag_new(batch, origin, "")
        return origin

    def _unequal(self, leaves: dict[str, Any]) -> dict[str, OriginRows]:
        """Return the rows of the leaves by path if they are of one origin, but not all the same; else an empty dict."""
        rows = {
            path: tag.rows for path, leaf in leaves.items() if (tag := self._tags.of(leaf)) and tag.rows is not None
        }
        known = [*rows.values()]
        if not known or all(known[0].same(other) for other in known[1:]):
            return {}
        is_one = len({(other.origin, len(other.ids)) for other in known}) == 1
        return rows if is_one else {}

    def _begin_pairs(self, batch: Any, leaves: dict[str, Any], rows: dict[str, OriginRows]) -> int:
        """Register a batch whose fields are of different rows, as pairs are, under an origin of its own."""
        origin = self.count
        self.count += 1
        prompts = {path: self.column(known, frozenset({"uid"})) for path, known in rows.items()}
        known = {path: uid for path, uid in prompts.items() if uid is not None}
        self.pairs.append((type(batch).__name__, here(), rows, known))
        self._remember(batch, origin, "")
        numbered = OriginRows(origin, np.arange(len(next(iter(rows.values())).ids)))
        for path, leaf in leaves.items():
            tag = self._tags.of(leaf) or UNKNOWN
            field = OriginField(origin, path)
            own = numbered if leaf.shape and leaf.shape[0] == len(numbered.ids) else None
            self._tags.put(leaf, replace(tag, fields=frozenset({field}), rows=own, column=field))
            self._columns.setdefault((origin, path), []).append(weakref.ref(leaf))
        return origin

    def _leaves(self, batch: Any, prefix: str) -> dict[str, Any]:
        return {path if prefix else self._roles.name(path): leaf for path, leaf in _leaves(batch, prefix)}

    def _remember(self, batch: Any, origin: int, prefix: str) -> None:
        key, known = id(batch), self._known
        known[key] = _Known(weakref.ref(batch, lambda _: known.pop(key, None)), origin, prefix, _ids(batch))

    def _tag_new(self, batch: Any, origin: int, prefix: str) -> None:
        """Tag the leaves that have no tag, and remember the columns."""
        leaves = self._leaves(batch, prefix)
        rows = next((tag.rows for leaf in leaves.values() if (tag := self._tags.of(leaf)) and tag.rows), None)
        for path, leaf in leaves.items():
            tag = self._tags.of(leaf)
            if tag is None:
                shape = leaf.shape
                if rows is None and shape:
                    rows = OriginRows(origin, np.arange(shape[0]))
                own = rows if rows is not None and shape and len(rows.ids) == shape[0] else None
                field = OriginField(origin, path)
                columns = Columns((origin, shape[1]), 0) if len(shape) > 1 else None
                self._tags.put(leaf, Tag(frozenset({field}), own, field, columns=columns))
            elif tag.from_model:
                self.computed.add(path)
            known = self._columns.setdefault((origin, path), [])
            if not known and path in MUST_READ and leaf.shape:
                values = leaf.detach() if KINDS[type(leaf)] is TENSOR else leaf
                if bool((values == values.flatten()[:1]).all()):
                    self.blank.add(path)
            if all(reference() is not leaf for reference in known[-4:]):
                known.append(weakref.ref(leaf))

    def on_read(self, batch: Any, name: str, value: Any) -> None:
        """Record that a field was read, unless it is in a function that torch maps over a batch."""
        if KINDS[type(value)] is TENSOR and is_functorch_wrapped_tensor(value):
            return
        before = self._tags.of(value)
        origin = self.register(batch)
        prefix = self._known[id(batch)].prefix
        known = name if prefix else self._roles.name(name)
        path = f"{prefix}{known}"
        if KINDS[type(value)] is BATCH:
            self._remember(value, origin, f"{path}.")
        elif (tag := self._tags.of(value)) is not None and (tag.column is None or tag.column.name != path):
            # A tensor may be in several fields, as a mask of responses that is the mask of the loss too.
            field = OriginField(origin, path)
            self._tags.put(value, replace(tag, fields=tag.fields | {field}, column=field))
        self.read.setdefault(origin, set()).add(path.split(".")[0])
        classes = self.classes.setdefault(origin, [])
        if not prefix and type(batch) not in classes:
            classes.append(type(batch))
        self._reads.setdefault((type(batch).__name__, function_here()), set()).add(name)
        self._tell("read", batch, known, value, before)

    @contextmanager
    def reading(self, thread: int) -> Generator[None]:
        """Record the fields that a thread reads in a block."""

        def on_read(*read: Any) -> None:
            if threading.get_ident() == thread:
                # What cannot be followed is not followed; the update goes on.
                with suppress(Exception), DisableTorchFunction():
                    self.on_read(*read)

        def on_use(batch: Any) -> None:
            if threading.get_ident() == thread:
                with suppress(Exception), DisableTorchFunction():
                    self.used.add(self.register(batch))

        def on_write(batch: Any, name: str) -> None:
            if threading.get_ident() == thread:
                self._tell("written", batch, self._roles.name(name))

        members = [
            *((Batch, name, function) for name, function in _readers(on_read, on_use).items()),
            (Batch, "__setattr__", _writer(on_write)),
            *self._watching(),
        ]
        with _replaced(members):
            yield

    def _watching(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield functions of the library that are replaced by ones that report what they are given or return."""

        def tell(event: str, *positions: int) -> Callable[..., None]:
            return lambda *args: self._tell(event, *(args[position] for position in positions))

        def got_next(ahead: Any, *_: Any) -> None:
            if ahead.obs_next is not None:
                self.on_get("obs_next", ahead.obs_next)

        def grouped(rows: Any, name: str, *_: Any) -> None:
            self._tell("grouped", self._roles.name(name), rows.get(name))

        yield _told(torch, "from_numpy", after=self._copy_tag)
        yield _told(nn.Module, "load_state_dict", before=tell("loading", 0, 1))
        for kind in _DISTRIBUTIONS:
            yield _told(kind, "log_prob", after=self._label)
        yield _told(grouping, "values_of", before=grouped)
        yield _told(returns, "look_ahead", before=tell("sampled", 0, 1, 2), after=got_next)
        yield _told(returns, "_values", after=lambda out, _, name, __: self._tell("valued", name, out))
        yield _told(PrioritizedReplayBuffer, "update_weight", before=tell("priorities", 2))
        yield _told(returns, "per_row", before=tell("bootstrap", 0))
        yield _told(ReplayBuffer, "get", after=lambda value, *args: self.on_get(args[2], value))

    def on_get(self, key: str, value: Any) -> None:
        """Record that a field of some rows of a buffer was read."""
        key = self._roles.name(key)
        self.read.setdefault(-1, set()).add(key)
        if KINDS[type(value)] in (ARRAY, TENSOR) and self._tags.of(value) is None:
            field = OriginField(-1, key)
            self._tags.put(value, Tag(frozenset({field}), None, field))

    def _label(self, out: Any, *_: Any) -> None:
        tag = self._tags.of(out)
        if tag is not None and not tag.is_of_labels:
            self._tags.put(out, replace(tag, is_of_labels=True))

    def _copy_tag(self, out: Any, array: Any) -> None:
        if (tag := self._tags.of(array)) is not None:
            self._tags.put(out, tag)


def _told(
    owner: Any, name: str, before: Callable[..., object] | None = None, after: Callable[..., object] | None = None
) -> tuple[Any, str, Any]:
    """Return a function that passes its arguments, or its result and arguments, to others, with its owner and name.

    They get the arguments in the order of the parameters; those of a wrong call are left to the function to refuse.
    """
    function = vars(owner)[name]
    bind = _binding(function)

    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            given = bind(*args, **kwargs).args
        except TypeError:
            return function(*args, **kwargs)
        if before is not None:
            before(*given)
        out = function(*args, **kwargs)
        if after is not None:
            after(out, *given)
        return out

    return owner, name, told


@cache
def _binding(function: Callable[..., Any]) -> Callable[..., BoundArguments]:
    """Return what binds arguments to the parameters of a function, which takes as long as a small update to find."""
    try:
        return signature(function).bind
    except ValueError:  # A function in C may have no signature.
        return signature(lambda *args: args).bind


def _distributions(base: type[Distribution]) -> Iterator[type[Distribution]]:
    """Yield the classes of distributions that have a ``log_prob`` of their own."""
    if "log_prob" in vars(base):
        yield base
    for kind in base.__subclasses__():
        yield from _distributions(kind)


_DISTRIBUTIONS = tuple(_distributions(Distribution))
_ABSENT = object()


@contextmanager
def _replaced(members: list[tuple[Any, str, Any]]) -> Generator[None]:
    """Replace attributes of classes and modules in a block."""
    before = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in members]
    try:
        for owner, name, member in members:
            setattr(owner, name, member)
        yield
    finally:
        for owner, name, member in before:
            if member is not _ABSENT:
                setattr(owner, name, member)
            elif name in vars(owner):
                delattr(owner, name)


def _leaves(batch: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the arrays and tensors of a batch and its nested ones, with their paths."""
    for name, value in object.__getattribute__(batch, "__dict__").items():
        kind = KINDS[type(value)]
        if kind is ARRAY or kind is TENSOR:
            yield f"{prefix}{name}", value
        elif kind is BATCH:
            yield from _leaves(value, f"{prefix}{name}.")


def _at(value: Any, known: OriginRows, wanted: OriginRows) -> Any:
    """Return the values at some of the rows that a column has, or None if it does not have all."""
    if known.same(wanted):
        return value
    if len(known.ids) <= len(wanted.ids) or not known.is_range():
        return None
    at = wanted.ids - known.ids[0]
    if at.min() < 0 or at.max() >= len(value):
        return None
    return value[torch.from_numpy(at).to(value.device)] if KINDS[type(value)] is TENSOR else value[at]


def _ids(batch: Any) -> tuple[int, ...]:
    """Return the ids of the values of a batch, by which a change is seen."""
    return tuple(map(id, object.__getattribute__(batch, "__dict__").values()))


def _writer(on_write: Callable[[Any, str], None]) -> Any:
    """Return a ``Batch.__setattr__`` that reports each name."""
    set_attribute = Batch.__setattr__

    def attribute(self: Any, name: str, value: Any) -> None:
        set_attribute(self, name, value)
        on_write(self, name)

    return attribute


def _readers(on_read: Callable[[Any, str, Any], None], on_use: Callable[[Any], None]) -> dict[str, Any]:
    """Return methods of ``Batch`` that report each field they return, and each batch that an operation uses."""
    get_item, get, items = Batch.__getitem__, Batch.get, Batch.items

    def attribute(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name == "__dict__":
            if value:
                on_use(self)
        elif name[:1] != "_" and name in object.__getattribute__(self, "__dict__"):
            on_read(self, name, value)
        return value

    def item(self: Any, index: Any) -> Any:
        value = get_item(self, index)
        if type(index) is str:
            on_read(self, index, value)
        return value

    def got(self: Any, key: str, default: Any = None) -> Any:
        value = get(self, key, default)
        if key in object.__getattribute__(self, "__dict__"):
            on_read(self, key, value)
        return value

    def all_items(self: Any) -> Any:
        for name, value in items(self):
            on_read(self, name, value)
        return items(self)

    return {"__getattribute__": attribute, "__getitem__": item, "get": got, "items": all_items}
