"""Records: batches with declared fields and a checked keyword constructor, one for each protocol.

``RolloutBatch`` has the fields of ``RolloutBatchProtocol`` and matches it; the same holds for every other pair. A
record of your own is one declaration::

    class GoalRollout(RolloutBatch):
        goal: Array
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, get_origin

from typing_extensions import Format, dataclass_transform, get_annotations, override

from typedbatch._core.declaration import declare, number_fields, object_fields
from typedbatch._core.kinds import ARRAY, KINDS, TENSOR, describe
from typedbatch._core.meta import as_meta, set_meta, shared_fields
from typedbatch._markers import Flag, NoGradient, PerStep, StepsFirst
from typedbatch._names import nearest
from typedbatch._ops import construct, copying
from typedbatch._ops.from_rows import MissingInRows, columns_of, fields_of_rows, lists_to_arrays
from typedbatch._ops.joined_meta import joined_meta
from typedbatch._typing import Act_co, Array, Distribution, K_co, Obs_co
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, FieldNameError, did_you_mean
from typedbatch.protocols import BatchProtocol, subscripted

if TYPE_CHECKING:
    from typedbatch._typing import TYPEDBATCH_PLUGIN, Closed, ClosedToWriting, ForNumpy, Validated

_REQUIRED = object()
_OWN = ("__record_fields__", "__declares_meta__")
# Most libraries call a critic's output "values", so it may be a field; Batch.values(record) calls the method then.
_MEMBERS = {name for base in Batch.__mro__ for name in vars(base)} - {"values"}


class ClosedBatch(Batch):
    """A batch with declared fields of one length; type checkers refuse other fields, and compare it with protocols."""

    _needs_equal_rows = True

    if TYPE_CHECKING:
        if not TYPEDBATCH_PLUGIN:
            # Of the spellings that hide the methods of Batch, only this one has the same effect in all type checkers.
            __getattr__: ClassVar[Closed]  # type: ignore[assignment,misc]  # pyright: ignore[reportIncompatibleMethodOverride]
            __setattr__: ClassVar[ClosedToWriting]  # type: ignore[assignment,misc]  # pyright: ignore[reportIncompatibleMethodOverride]
            __delattr__: ClassVar[Closed]  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]

            @property
            @override
            def __validated__(self) -> Validated: ...

        def __array__(self) -> ForNumpy: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # unlike a plain batch


@dataclass_transform(kw_only_default=True, eq_default=False)
class BatchRecord(ClosedBatch):
    """Base of records of your own, whose constructors take the annotated fields as keywords.

    A field with a default may be left out. Rows, slices, ``split``, ``cat`` and ``stack`` preserve the class. The
    constructor converts as :class:`Batch` does, copies nothing and checks names; ``validate`` checks kinds and lengths.
    ``record.name = value`` accepts declared names only, ``record["name"] = value`` any name.

    Raises:
        TypeError: A field is missing or not declared, as in any call in Python.
        DeclarationError: At class creation, a field has the name of a member of ``Batch`` or begins with ``__``.
    """

    __record_fields__: ClassVar[dict[str, object]] = {}
    __declares_meta__: ClassVar[bool] = False
    if not TYPE_CHECKING:  # Checkers derive the constructor and the allowed attributes from the declaration.

        def __init__(self, *given: object, **fields: object) -> None:
            if given:
                text = f"{type(self).__name__}() takes its fields as keywords, got {describe(given[0])} by position"
                hint = f"; extend(batch, {type(self).__name__}, ...) makes one of a batch"
                raise TypeError(text + hint * isinstance(given[0], Batch))
            declared = type(self).__record_fields__
            meta = None
            if fields.keys() != declared.keys() or type(self).__declares_meta__:
                meta, fields = _complete(type(self), fields)
            construct.fill(self.__dict__, fields, type(self))
            if meta is not None:
                set_meta(self, meta)

        @classmethod
        def from_rows(cls, rows: Iterable[Any], missing: MissingInRows = "error", *, meta: Any = None) -> Any:
            """Build a record from a list of dicts or Batches, one for each row; see :meth:`Batch.from_rows`."""
            given = fields_of_rows(rows)
            columns = lists_to_arrays(columns_of(given, missing, object_fields[cls]), number_fields[cls])
            found = joined_meta(given, None) if meta is None else as_meta(meta)
            if cls.__declares_meta__ and found:
                return cls(**columns, meta=found)
            record = cls(**columns)
            if found:
                set_meta(record, found)
            return record

        def __setattr__(self, name: str, value: object) -> None:
            cls = type(self)
            if (
                name[:2] != "__"
                and name not in cls.__record_fields__
                and not isinstance(getattr(cls, name, None), property)
            ):
                near = nearest(name, cls.__record_fields__)
                raise FieldNameError(
                    f"{cls.__name__} declares no field {name!r}; {f'did you mean {near!r}? ' if near else ''}"
                    f"batch[{name!r}] = ... adds it anyway, extend() makes the next stage"
                )
            super().__setattr__(name, value)

        def __class_getitem__(cls, args: Any) -> Any:
            return subscripted(BatchRecord, cls, args)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if any(getattr(base, "_is_protocol", False) and base is not Generic for base in cls.__mro__):
            raise DeclarationError(
                f"{cls.__name__} is a record, so it cannot inherit from a protocol; it matches protocols by its fields"
            )
        fields = {name: _REQUIRED for base in bases_first(cls) for name in _own_annotations(base)}
        for base in reversed(cls.__mro__):  # The first class in the MRO decides on the default, so it comes last.
            fields.update((name, base.__dict__.get(name, _REQUIRED)) for name in _own_annotations(base))
        cls.__declares_meta__ = fields.pop("meta", None) is not None
        if "meta" in vars(cls):
            text = f"{cls.__name__}.meta has a default, which meta cannot have; give meta to the constructor"
            raise DeclarationError(text)
        for name, default in fields.items():
            if name in _MEMBERS or name[:2] == "__":
                raise DeclarationError(
                    f"{cls.__name__} cannot declare {name!r}: it is a member of every Batch; "
                    f"choose another name, or set it as batch[{name!r}]"
                )
            if type(default).__module__ == "dataclasses":
                raise DeclarationError(
                    f"{cls.__name__}.{name} must have a plain default, got a dataclasses.field(); "
                    "the default itself is copied"
                )
        cls.__record_fields__ = fields
        declare(cls)


construct.refuse_on_instances(BatchRecord, "from_rows")


def bases_first(cls: type) -> Iterator[type]:
    """Yield a class after its bases, from left to right: the order in which fields are listed."""
    for base in cls.__bases__:
        yield from bases_first(base)
    yield cls


def is_class_var(hint: object) -> bool:
    """Return True for ``ClassVar[...]``, as an object or as a string."""
    if isinstance(hint, str):
        return re.match(r"(\w+\.)*ClassVar\b", hint) is not None
    return hint is ClassVar or get_origin(hint) is ClassVar


def view(batch: Any, target: type) -> Any:
    """Return an object of the record class ``target`` that shares the fields of a batch.

    Return the batch itself if it is one already, or if ``target`` is a protocol.
    """
    if not issubclass(target, Batch) or isinstance(batch, target) or not isinstance(batch, Batch):
        return batch
    return new_view(batch, target)


def new_view(batch: Batch, target: type) -> Any:
    """Return a new object of the record class ``target`` that shares the fields of a batch."""
    out: Any = object.__new__(target)
    object.__setattr__(out, "__dict__", shared_fields(batch))
    return out


def default_of(cls: type, name: str) -> object:
    """Return the default of a field of a record, or None if it has no default."""
    default = getattr(cls, "__record_fields__", {}).get(name, _REQUIRED)
    return None if default is _REQUIRED else default


def fill_defaults(cls: type[Batch], fields: dict[str, Any]) -> None:
    """Add the missing fields of a record that have a default, with a copy of the default."""
    declared: dict[str, object] = getattr(cls, "__record_fields__", {})
    if declared.keys() <= fields.keys():
        return
    for name, default in declared.items():
        if name not in fields and default is not _REQUIRED:
            construct.fill(fields, {name: copying.deep_leaf(default, {})}, cls)


def _own_annotations(cls: type) -> list[str]:
    if not issubclass(cls, BatchRecord):
        return []
    annotations = get_annotations(cls, format=Format.FORWARDREF)  # These exclude inherited ones.
    return [name for name, hint in annotations.items() if name not in _OWN and not is_class_var(hint)]


def _complete(cls: type[BatchRecord], fields: dict[str, object]) -> tuple[dict[str, Any] | None, dict[str, object]]:
    """Return the declared meta and the other arguments with defaults, in the order of the declaration.

    Raises:
        TypeError: An argument is missing or not declared, as in any call in Python.
    """
    declared, meta = cls.__record_fields__, None
    if cls.__declares_meta__:
        if "meta" not in fields:
            raise TypeError(f"{cls.__name__}() is missing 'meta'; it was given {', '.join(fields) or 'nothing'}")
        meta = as_meta(fields.pop("meta"))
    for name in fields:
        if name == "meta":
            text = f"{cls.__name__}() takes no meta, as it declares none; set it afterwards, batch.meta = {{...}}"
            raise TypeError(f"{text}, or declare it as a TypedDict")
        if name not in declared:
            raise TypeError(f"{cls.__name__}() got an unexpected field {name!r}{did_you_mean(name, declared)}")
    missing = [name for name, default in declared.items() if default is _REQUIRED and name not in fields]
    if missing:
        given = ", ".join(fields) or "nothing"
        raise TypeError(f"{cls.__name__}() is missing {', '.join(map(repr, missing))}; it was given {given}")
    fill_defaults(cls, fields)
    return meta, {name: fields[name] for name in declared}


def type_of(record: Batch) -> Any:
    """Return the type of a record with type arguments, which it does not know itself, that its values allow.

    The kind is that of all its arrays or tensors, and ``Any`` if it has both; other arguments are ``Any``.
    """
    cls: Any = type(record)
    parameters = getattr(cls, "__parameters__", ())
    if not parameters:
        return cls
    kinds = {type(value) for value in record.__dict__.values() if KINDS[type(value)] in (ARRAY, TENSOR)}
    if not kinds:
        return cls
    kind = kinds.pop() if len(kinds) == 1 else Any
    return cls[tuple(kind if parameter is K_co else Any for parameter in parameters)]


class ObsBatch(BatchRecord, Generic[K_co, Obs_co]):
    """Observations: the input of a policy."""

    obs: Annotated[Obs_co, StepsFirst]
    """Observation of each step, ``(N, *obs)``; or a nested batch of them."""
    info: BatchProtocol | K_co | Array
    """Other information from the environment, as a nested batch or object array of N rows; ``Batch()`` for none."""


class ActBatch(BatchRecord, Generic[K_co, Act_co]):
    """Actions: the output of a policy."""

    act: Annotated[Act_co, StepsFirst]
    """Action of each step, ``(N,)`` or ``(N, *act)``, integer or floating; or a nested batch of them."""


class ActStateBatch(ActBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Actions with the hidden state of a recurrent policy."""

    state: BatchProtocol | K_co | Array | None
    """Hidden state after the step, rows first; ``None`` for policies without memory."""


class ModelOutputBatch(ActStateBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Output of a model, before an action is drawn."""

    logits: K_co
    """Unnormalized output of the model, ``(N, *out)``: action values or log-probabilities."""


class DistBatch(ModelOutputBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Model output with the distribution that actions are drawn from."""

    dist: Distribution
    """Distribution over actions, ``batch_shape`` ``(N,)``."""


class DistLogProbBatch(DistBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Distribution and the log-probability of the drawn action, as SAC uses them."""

    log_prob: K_co
    """Log-probability of ``act`` under ``dist``, in nats, ``(N,)`` or ``(N, 1)``."""


class QuantileRegressionBatch(ModelOutputBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Output of an implicit quantile network (IQN, arXiv:1806.06923)."""

    taus: K_co
    """Sampled quantile fractions in [0, 1], ``(N, n_tau)``."""


class FQFBatch(ModelOutputBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Output of a fully parameterized quantile function (FQF, arXiv:1911.02140)."""

    fractions: BatchProtocol | K_co
    """Proposed quantile fractions, ``(N, n_tau + 1)``, or a nested batch of them and their midpoints."""
    quantiles_tau: K_co
    """Quantile values at the proposed fractions, ``(N, n_act, n_tau)``."""


class ImitationBatch(ModelOutputBatch[K_co, Act_co], Generic[K_co, Act_co]):
    """Output of discrete batch-constrained Q-learning (BCQ, arXiv:1910.01708)."""

    q_value: K_co
    """Action values, ``(N, n_act)``."""
    imitation_logits: K_co
    """Unnormalized log-probabilities of the behavior policy, ``(N, n_act)``."""


class RecurrentState(BatchRecord, Generic[K_co]):
    """Hidden state of an LSTM, rows first."""

    hidden: K_co
    """Hidden state, ``(N, layers, units)``."""
    cell: K_co
    """Cell state, ``(N, layers, units)``."""


class RolloutBatch(ObsBatch[K_co, Obs_co], Generic[K_co, Obs_co, Act_co]):
    """Transitions, as collectors return them and buffers store and sample them."""

    # obs and info are repeated from ObsBatch because editors with pyright list a class's own fields first.
    obs: Annotated[Obs_co, StepsFirst]
    """Observation of each step, ``(N, *obs)``; or a nested batch of them."""
    info: BatchProtocol | K_co | Array
    """Other information from the environment, as a nested batch or object array of N rows; ``Batch()`` for none."""
    obs_next: Annotated[Obs_co, StepsFirst]
    """Observation after the step, as ``obs``."""
    act: Annotated[Act_co, StepsFirst]
    """Action of each step, ``(N,)`` or ``(N, *act)``, integer or floating; or a nested batch of them."""
    rew: Annotated[K_co, PerStep]
    """Reward of each step, ``(N,)``."""
    terminated: Annotated[K_co, Flag]
    """True where the episode ended in a terminal state, ``(N,)``, bool."""
    truncated: Annotated[K_co, Flag]
    """True where the episode was cut off, as by a time limit, ``(N,)``, bool."""


class PrioBatch(RolloutBatch[K_co, Obs_co, Act_co], Generic[K_co, Obs_co, Act_co]):
    """Transitions from a prioritized buffer (arXiv:1511.05952)."""

    weight: Annotated[K_co, PerStep]
    """Importance-sampling weight of each transition, ``(N,)``."""


class BatchWithReturns(RolloutBatch[K_co, Obs_co, Act_co], Generic[K_co, Obs_co, Act_co]):
    """Transitions with their returns."""

    returns: Annotated[K_co, PerStep, NoGradient]
    """Discounted return from each step on, ``(N,)``."""


class BatchWithAdvantages(BatchWithReturns[K_co, Obs_co, Act_co], Generic[K_co, Obs_co, Act_co]):
    """Transitions with returns, advantages and state values."""

    adv: Annotated[K_co, PerStep, NoGradient]
    """Advantage of each action, ``(N,)``."""
    v_s: Annotated[K_co, PerStep]
    """Value estimate of ``obs``, ``(N,)``."""


class LogpOldBatch(BatchWithAdvantages[K_co, Obs_co, Act_co], Generic[K_co, Obs_co, Act_co]):
    """Transitions for PPO, with the log-probability of the actions under the policy that collected them."""

    logp_old: Annotated[K_co, PerStep, NoGradient]
    """Log-probability of ``act`` under the collecting policy, in nats, ``(N,)``."""
