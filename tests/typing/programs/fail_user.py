"""Records and protocols of one's own, used or declared wrongly."""

from typing import Any, Generic, Protocol

from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithReturns,
    RolloutBatch,
    RolloutBatchProtocol,
    extend,
    validate,
)

Array = NDArray[Any]
K_co = TypeVar("K_co", covariant=True, default=Array)
T = TypeVar("T")


class GoalRollout(RolloutBatch):
    goal: Array
    mask: Array | None = None


class HasGoal(BatchProtocol, Protocol):
    @property
    def goal(self) -> Array: ...


class PixelObs(BatchRecord, Generic[K_co]):
    cam: K_co
    pos: K_co


class GoalReturns(GoalRollout, BatchWithReturns):
    pass


def distance(batch: HasGoal) -> None: ...
def train(batch: GoalRollout) -> None: ...
def see(batch: RolloutBatchProtocol[Tensor, PixelObs[Tensor]]) -> None: ...


def build(a: Array, t: Tensor) -> None:
    GoalRollout(obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a)  # E: missing-field: goal
    GoalRollout(obs=a, info=Batch(), obs_next=a, act=a, terminated=a, truncated=a, goal=a)  # E: missing-field: rew
    GoalRollout(  # E: unknown-keyword: goall
        obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a, goal=a, goall=a
    )
    GoalRollout(  # E: wrong-stage
        obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a, goal=t
    )
    GoalReturns(  # E: missing-field: returns
        obs=a, info=Batch(), obs_next=a, act=a, rew=a, terminated=a, truncated=a, goal=a
    )
    PixelObs(cam=a)  # E: missing-field: pos
    PixelObs[Tensor](cam=t, pos=a)  # E: wrong-stage
    PixelObs(cam=a, pos=a, depth=a)  # E: unknown-keyword: depth


def use(g: GoalRollout, r: RolloutBatch, b: Batch, a: Array, t: Tensor) -> None:
    distance(g)
    distance(r)  # E: too-early
    distance(b)  # E: unvalidated
    train(r)  # E: too-early
    train(extend(r, GoalRollout, goal=a))
    train(validate(b, RolloutBatch))  # E: wrong-result
    print(g.gaol)  # E: misspelt-read: gaol
    print(g[:2].gaol)  # E: misspelt-read: gaol
    print(g.mask.sum())  # E: optional-read: sum
    g.goal = t  # E: wrong-write
    g.gaol = a  # E: undeclared-write: gaol
    g.mask = None


def nested(
    numpy: RolloutBatch[Array, PixelObs], torch: RolloutBatch[Tensor, PixelObs[Tensor]], mixed: RolloutBatch[Tensor, PixelObs]
) -> None:
    see(torch)
    see(numpy)  # E: wrong-stage
    see(mixed)  # E: wrong-nested
    print(torch.obs.cam.astype(int))  # E: misspelt-read: astype
    print(torch.obs.deep)  # E: misspelt-read: deep
    numpy.obs = torch.obs  # E: wrong-write


class Retyped(RolloutBatch):
    rew: str  # E: bad-override


class Shadow(BatchRecord):
    keys: Array  # E: shadowed-method


class Loose(BatchRecord):
    margin: Array | float = "large"  # E: wrong-kind


class RetypedProtocol(RolloutBatchProtocol, Protocol):
    @property
    def rew(self) -> str: ...  # E: bad-override


class Unbound(RolloutBatch[T], Generic[T]):  # E: unbound-parameter: ArrayOrTensor
    cost: T


class UnboundProtocol(RolloutBatchProtocol[T], Protocol[T]):  # E: unbound-parameter
    @property
    def cost(self) -> T: ...


class OfText(RolloutBatch[str]):  # E: unbound-parameter: ArrayOrTensor
    pass
