"""Protocols: read-only, covariant, structural types for arguments, which records with these fields match.

Names, fields and hierarchy are those of Tianshou 2 (``tianshou.data.types``). The first parameter of every protocol is
the kind of array: ``RolloutBatchProtocol`` is for arrays, ``RolloutBatchProtocol[Tensor]`` for tensors. Observation and
action default to it, and may be nested: ``RolloutBatchProtocol[Tensor, PixelObs[Tensor]]``. N is the number of rows,
the same in every field. Fields with one number per step have one shape, ``(N,)`` or one with a further axis such as
that of time, and ``obs``, ``act`` and ``obs_next`` begin with it.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, get_origin, overload

from typedbatch._core.declaration import declare, pydantic_schema
from typedbatch._markers import Flag, NoGradient, PerStep, StepsFirst
from typedbatch._ops.splitting import Rng
from typedbatch._typing import Act_co, Array, ArrayOrTensor, Distribution, Index, K_co, Obs_co, with_defaults
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device, Dtype
    from typedbatch._typing import TYPEDBATCH_PLUGIN, ForNumpy, Validated

S = TypeVar("S", bound="BatchProtocol")


def subscripted(base: Any, cls: Any, args: Any) -> Any:
    """Return a protocol or record with type arguments; the others get their defaults.

    Raises:
        DeclarationError: A batch is given as the kind of array.
    """
    try:
        return _subscripted(base, cls, args)
    except TypeError:
        pass  # An argument is not hashable, or there are too many.
    return _subscripted.__wrapped__(base, cls, args)


@lru_cache(typed=True)  # typing caches too, since RolloutBatch[Tensor] may be evaluated in loops.
def _subscripted(base: Any, cls: Any, args: Any) -> Any:
    full = with_defaults(cls, args)
    for parameter, argument in zip(getattr(cls, "__parameters__", ()), full, strict=False):
        of = get_origin(argument) or argument
        is_kind = getattr(parameter, "__bound__", None) is ArrayOrTensor
        if is_kind and isinstance(of, type) and {Batch, BatchProtocol} & {*of.__mro__}:
            raise DeclarationError(
                f"{cls.__name__}[{of.__name__}] says that its fields hold {of.__name__} in place of arrays; "
                f"the kind of array comes first: {cls.__name__}[NDArray[Any], {of.__name__}]"
            )
    return super(base, cls).__class_getitem__(full)


class BatchProtocol(Protocol):
    """Any batch, without fields but with rows, length, shape and conversion; the base of protocols of your own."""

    if not TYPE_CHECKING:

        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            declare(cls)

        def __class_getitem__(cls, args: Any) -> Any:
            return subscripted(BatchProtocol, cls, args)

        __get_pydantic_core_schema__ = classmethod(pydantic_schema)

    if TYPE_CHECKING:
        if not TYPEDBATCH_PLUGIN:

            @property
            def __validated__(self) -> Validated: ...

        def __array__(self) -> ForNumpy: ...

    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    @overload
    def __getitem__(self: S, index: Index, /) -> S: ...
    def __len__(self) -> int: ...
    def __iter__(self: S) -> Iterator[S]: ...
    def __contains__(self, name: object, /) -> bool: ...

    @property
    def shape(self) -> list[int]:
        """Smallest size in each dimension that all leaves have."""
        ...

    @property
    def meta(self) -> Any:
        """Values that belong to the batch as a whole and not to a row."""
        ...

    def split(self: S, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: Rng = None) -> Iterator[S]:
        """Yield minibatches of ``size`` rows."""
        ...

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        ...

    def items(self) -> ItemsView[str, Any]:
        """Return the name and value of each field."""
        ...

    def get(self, key: str, default: Any = None) -> Any:
        """Return the field, or ``default`` if the field does not exist."""
        ...

    def copy(self: S) -> S:
        """Return new Batches with the same leaves."""
        ...

    # Besides being useful, a method that takes its own type keeps mypy 2.4 from inferring ``ObsBatch[Never]`` for a
    # record that is built as the argument for a protocol, as in ``update(ObsBatch(obs=x, info=Batch()))``.
    def allclose(self: S, other: S, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Return whether fields and shapes are equal, and numbers differ by at most ``atol + rtol * abs(other)``."""
        ...

    def to_numpy(self) -> Batch:
        """Return a Batch with arrays in place of tensors; with ``convert``, checkers still know the fields."""
        ...

    def to_torch(self, dtype: Dtype | None = None, device: Device = "cpu") -> Batch:
        """Return a Batch with tensors in place of arrays; with ``convert``, checkers still know the fields."""
        ...

    def to(self: S, device: Device | None = None, *, dtype: Dtype | None = None, non_blocking: bool = False) -> S:
        """Return the same batch with its tensors on ``device``, and its floating fields of ``dtype``."""
        ...

    def pin_memory(self: S) -> S:
        """Return the same batch with its tensors in pinned memory."""
        ...

    def to_dict(self, recursive: bool = True) -> dict[str, Any]:
        """Return the fields as a dict."""
        ...


class ObsBatchProtocol(BatchProtocol, Protocol[K_co, Obs_co]):
    """Observations: the input of a policy."""

    @property
    def obs(self) -> Annotated[Obs_co, StepsFirst]:
        """Observation of each step, ``(N, *obs)``; or a nested batch of them."""
        ...

    @property
    def info(self) -> BatchProtocol | K_co | Array:
        """Other information from the environment, as a nested batch or object array of N rows; ``Batch()`` for none."""
        ...


class ActBatchProtocol(BatchProtocol, Protocol[K_co, Act_co]):
    """Actions: the output of a policy."""

    @property
    def act(self) -> Annotated[Act_co, StepsFirst]:
        """Action of each step, ``(N,)`` or ``(N, *act)``, integer or floating; or a nested batch of them."""
        ...


class ActStateBatchProtocol(ActBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Actions with the hidden state of a recurrent policy."""

    @property
    def state(self) -> BatchProtocol | K_co | Array | None:
        """Hidden state after the step, rows first; ``None`` for policies without memory."""
        ...


class ModelOutputBatchProtocol(ActStateBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Output of a model, before an action is drawn."""

    @property
    def logits(self) -> K_co:
        """Unnormalized output of the model, ``(N, *out)``: action values or log-probabilities."""
        ...


class DistBatchProtocol(ModelOutputBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Model output with the distribution that actions are drawn from."""

    @property
    def dist(self) -> Distribution:
        """Distribution over actions, ``batch_shape`` ``(N,)``."""
        ...


class DistLogProbBatchProtocol(DistBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Distribution and the log-probability of the drawn action, as SAC uses them."""

    @property
    def log_prob(self) -> K_co:
        """Log-probability of ``act`` under ``dist``, in nats, ``(N,)`` or ``(N, 1)``."""
        ...


class QuantileRegressionBatchProtocol(ModelOutputBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Output of an implicit quantile network (IQN, arXiv:1806.06923)."""

    @property
    def taus(self) -> K_co:
        """Sampled quantile fractions in [0, 1], ``(N, n_tau)``."""
        ...


class FQFBatchProtocol(ModelOutputBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Output of a fully parameterized quantile function (FQF, arXiv:1911.02140)."""

    @property
    def fractions(self) -> BatchProtocol | K_co:
        """Proposed quantile fractions, ``(N, n_tau + 1)``, or a nested batch of them and their midpoints."""
        ...

    @property
    def quantiles_tau(self) -> K_co:
        """Quantile values at the proposed fractions, ``(N, n_act, n_tau)``."""
        ...


class ImitationBatchProtocol(ModelOutputBatchProtocol[K_co, Act_co], Protocol[K_co, Act_co]):
    """Output of discrete batch-constrained Q-learning (BCQ, arXiv:1910.01708)."""

    @property
    def q_value(self) -> K_co:
        """Action values, ``(N, n_act)``."""
        ...

    @property
    def imitation_logits(self) -> K_co:
        """Unnormalized log-probabilities of the behavior policy, ``(N, n_act)``."""
        ...


class RecurrentStateBatch(BatchProtocol, Protocol[K_co]):
    """Hidden state of an LSTM, rows first."""

    @property
    def hidden(self) -> K_co:
        """Hidden state, ``(N, layers, units)``."""
        ...

    @property
    def cell(self) -> K_co:
        """Cell state, ``(N, layers, units)``."""
        ...


class RolloutBatchProtocol(ObsBatchProtocol[K_co, Obs_co], Protocol[K_co, Obs_co, Act_co]):
    """Transitions, as collectors return them and buffers store and sample them."""

    # obs and info are repeated from ObsBatchProtocol because editors with pyright list a class's own fields first.

    @property
    def obs(self) -> Annotated[Obs_co, StepsFirst]:
        """Observation of each step, ``(N, *obs)``; or a nested batch of them."""
        ...

    @property
    def info(self) -> BatchProtocol | K_co | Array:
        """Other information from the environment, as a nested batch or object array of N rows; ``Batch()`` for none."""
        ...

    @property
    def obs_next(self) -> Annotated[Obs_co, StepsFirst]:
        """Observation after the step, as ``obs``."""
        ...

    @property
    def act(self) -> Annotated[Act_co, StepsFirst]:
        """Action of each step, ``(N,)`` or ``(N, *act)``, integer or floating; or a nested batch of them."""
        ...

    @property
    def rew(self) -> Annotated[K_co, PerStep]:
        """Reward of each step, ``(N,)``."""
        ...

    @property
    def terminated(self) -> Annotated[K_co, Flag]:
        """True where the episode ended in a terminal state, ``(N,)``, bool."""
        ...

    @property
    def truncated(self) -> Annotated[K_co, Flag]:
        """True where the episode was cut off, as by a time limit, ``(N,)``, bool."""
        ...


class PrioBatchProtocol(RolloutBatchProtocol[K_co, Obs_co, Act_co], Protocol[K_co, Obs_co, Act_co]):
    """Transitions from a prioritized buffer (arXiv:1511.05952)."""

    @property
    def weight(self) -> Annotated[K_co, PerStep]:
        """Importance-sampling weight of each transition, ``(N,)``."""
        ...


class BatchWithReturnsProtocol(RolloutBatchProtocol[K_co, Obs_co, Act_co], Protocol[K_co, Obs_co, Act_co]):
    """Transitions with their returns."""

    @property
    def returns(self) -> Annotated[K_co, PerStep, NoGradient]:
        """Discounted return from each step on, ``(N,)``."""
        ...


class BatchWithAdvantagesProtocol(BatchWithReturnsProtocol[K_co, Obs_co, Act_co], Protocol[K_co, Obs_co, Act_co]):
    """Transitions with returns, advantages and state values."""

    @property
    def adv(self) -> Annotated[K_co, PerStep, NoGradient]:
        """Advantage of each action, ``(N,)``."""
        ...

    @property
    def v_s(self) -> Annotated[K_co, PerStep]:
        """Value estimate of ``obs``, ``(N,)``."""
        ...


class LogpOldProtocol(BatchWithAdvantagesProtocol[K_co, Obs_co, Act_co], Protocol[K_co, Obs_co, Act_co]):
    """Transitions for PPO, with the log-probability of the actions under the policy that collected them."""

    @property
    def logp_old(self) -> Annotated[K_co, PerStep, NoGradient]:
        """Log-probability of ``act`` under the collecting policy, in nats, ``(N,)``."""
        ...
