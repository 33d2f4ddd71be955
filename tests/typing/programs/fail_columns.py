"""Columns of objects of another type than is declared, and items that are used as another type."""

from typing import TypedDict

from typedbatch import BatchRecord, Column, objects


class Message(TypedDict):
    role: str


class Questions(BatchRecord):
    answer: Column[str]
    messages: Column[list[Message]]


def graded(column: Column[int]) -> list[int]:
    return column.tolist()


def roles(batch: Questions) -> list[str]:
    return [message["rôle"] for item in batch.messages for message in item]  # E: misspelt-key


def use(batch: Questions) -> None:
    batch.answer[0].uper()  # E: misspelt-method: uper
    for answer in batch.answer:
        print(answer + 1)  # E: adds-a-number
    graded(batch.answer)  # E: column-of-text
    batch.answer = objects([1, 2])  # E: objects-of-another-type
    batch.answer = ["a", "b"]  # E: list-for-a-column


def make() -> Questions:
    return Questions(answer=objects([1, 2]), messages=objects([[{"role": "user"}]]))  # E: made-of-numbers
