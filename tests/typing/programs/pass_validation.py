"""Shapes, dtypes, rules, levels and boundaries of every sort keep the types that they are written with."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
import torch
from annotated_types import Ge, Le
from jaxtyping import Float, Float32, Int, Int64
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import assert_type

from typedbatch import (
    ActBatch,
    Batch,
    BatchProtocol,
    BatchRecord,
    Finite,
    ObsBatch,
    SeparateSizes,
    Rule,
    Sorted,
    checked,
    checking,
    conforms,
    rule,
    schema_of,
    validate,
)
from typedbatch.rules import has_counted_token
from typedbatch.schema.fields import Schema

Array = NDArray[Any]


def starts(times: Array) -> bool:
    return len(times) > 0


class Camera(BatchRecord):
    image: Float32[np.ndarray, "N 3 8 8"]
    depth: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    mode: Literal[0, 1] = 0


class Step(BatchRecord):
    obs: Camera
    act: Int64[Tensor, "N"]
    rew: Annotated[NDArray[np.float64], Finite, Ge(0), Le(1)]
    time: Annotated[Array, Sorted, Rule("not empty", starts)]

    @rule("there is a reward")
    def some(self) -> bool:
        return bool(self.rew.any())


class Paid(BatchProtocol, Protocol):
    @property
    def rew(self) -> Annotated[Array, Ge(0)]: ...

    if not TYPE_CHECKING:

        @rule("there is a reward")
        def some(self) -> bool:
            return bool(self.rew.any())


camera = Camera(image=np.zeros((2, 3, 8, 8), np.float32), depth=np.zeros((2, 4), np.float32))
step = Step(obs=camera, act=torch.zeros(2, dtype=torch.int64), rew=np.ones(2), time=np.array([0, 2]))
assert_type(step.act, Tensor)
assert_type(step.rew, NDArray[np.float64])
assert_type(step.some(), bool)
paid: Paid = step
loaded: object = Batch(step)
assert_type(validate(loaded, Step, level="values"), Step)
if conforms(loaded, Step):
    assert_type(loaded.act, Tensor)


@checked
def learn(batch: Step, scale: float = 1.0) -> dict[str, float]:
    return {"loss": scale * len(batch.act)}


@checked(level="values")
def carefully(batch: Paid) -> list[Paid]:
    return [batch]


assert_type(learn(step, scale=2.0), dict[str, float])
assert_type(carefully(step), list[Paid])


@checked
def each(batches: Iterable[ActBatch], first: tuple[ObsBatch, int] | None = None) -> Iterator[ActBatch]:
    yield from batches


@checked
async def stream(batches: AsyncIterator[ActBatch]) -> AsyncIterator[ActBatch]:
    async for batch in batches:
        yield batch


for one in each([ActBatch(act=np.zeros(2))]):
    assert_type(one, ActBatch)


@checked
@dataclass
class Trainer:
    batch: ActBatch
    rate: float = 0.1

    @checked
    def step(self, batch: ActBatch) -> float:
        return self.rate


assert_type(Trainer(ActBatch(act=np.zeros(2))).step(ActBatch(act=np.zeros(2))), float)


class Policy:
    @staticmethod
    @checked
    def act(batch: ObsBatch) -> ActBatch:
        return ActBatch(act=batch.obs)

    @classmethod
    @checked
    def build(cls, batch: ObsBatch) -> int:
        return len(batch)


assert_type(Policy.act(ObsBatch(obs=np.zeros(2), info=Batch())), ActBatch)
assert_type(Policy.build(ObsBatch(obs=np.zeros(2), info=Batch())), int)

with checking("values"):
    learn(step)


@checking("off")
def fast() -> int:
    return 1


assert_type(fast(), int)


# sizes of its own, for a field and for an argument; arrays of a call; a field called values; shipped rules
class Side(BatchRecord):
    ids: Int[np.ndarray, "N T"]


class Critic(BatchRecord):
    chosen: Annotated[Side, SeparateSizes]
    values: Tensor
    counts = has_counted_token("values")


class HasValues(BatchProtocol, Protocol):
    @property
    def values(self) -> Tensor: ...


@checked
def losses(logp: Float[np.ndarray, "N T"], side: Side, other: Annotated[Side, SeparateSizes]) -> Float[np.ndarray, "N"]:
    other_ids: np.ndarray = other.ids  # zuban may take jaxtyping's types for Any
    return np.zeros(len(logp) * (len(side) + len(other_ids) > 0))


@checked
def value_loss(batch: HasValues) -> Tensor:
    assert_type(batch.values, Tensor)
    return batch.values.mean()


pair = Side(ids=np.zeros((2, 3), int))
losses(np.zeros((2, 3)), pair, Side(ids=np.zeros((4, 3), int)))
critic = Critic(chosen=pair, values=torch.zeros(2))
assert_type(critic.chosen, Side)
assert_type(critic.values, Tensor)
value_loss(critic)
critic.values = torch.ones(2)
value_loss(validate(Batch(values=torch.zeros(2)), HasValues))
assert len(list(Batch(act=np.zeros(2)).values())) == 1

schema = schema_of(Step)
assert_type(schema, Schema)
assert_type([field.name for field in schema], list[str])
