"""Columns of objects whose items have a type, and where arrays of objects are expected."""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

from typedbatch import Batch, BatchRecord, Column, cat, objects


class Message(TypedDict):
    role: str


class Questions(BatchRecord):
    answer: Column[str]
    messages: Column[list[Message]]
    extra: NDArray[np.object_]
    tool: Column[str | None] | None = None


def counts(column: NDArray[np.object_]) -> int:
    return len(column)


def texts(column: Column[object]) -> list[str]:
    return [str(item) for item in column]


kept: NDArray[np.bool_] = np.array([True, False])
messages: list[list[Message]] = [[{"role": "user"}], []]
batch = Questions(answer=objects(["a", "b"]), messages=objects(messages), extra=objects([1, "b"]))

assert_type(batch.answer[0], str)
assert_type(batch.answer[1:], Column[str])
assert_type(batch.answer[kept], Column[str])
assert_type(batch.answer.tolist(), list[str])
assert_type(batch[:1].answer, Column[str])
assert_type(cat([batch, batch]).answer, Column[str])
assert_type(objects([1, 2]), Column[int])

roles: list[str] = []
for answer, conversation in zip(batch.answer, batch.messages):
    assert_type(answer, str)
    roles += [answer.upper(), *(message["role"] for message in conversation)]

assert counts(batch.answer) == counts(batch.extra) == 2
assert texts(batch.answer) == ["a", "b"]
assert roles == ["A", "user", "B"]

batch.answer = objects(str(number) for number in range(2))
batch.extra = batch.answer
batch.tool = objects(["search", None])
plain = Batch(answer=objects(["a", "b"]))
items: Any = plain.answer
assert list(items) == ["a", "b"]
