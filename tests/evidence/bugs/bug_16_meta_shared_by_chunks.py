"""All chunks hold one and the same metadata dict; writing to one part's writes to all."""

from typedbatch import Batch, rows

PROJECT = "verl-recipe"
LINK = "https://github.com/verl-project/verl-recipe/pull/96"
CAUGHT_BY = "operation"


def chunk(batch: dict, n: int) -> list[dict]:
    size = len(batch["ids"]) // n
    return [{"ids": batch["ids"][i * size : (i + 1) * size], "meta": batch["meta"]} for i in range(n)]


def union(a: dict, b: dict) -> dict:
    for key, value in b["meta"].items():
        assert a["meta"].setdefault(key, value) == value, f"meta {key!r} differs"
    return a


def broken() -> str:
    first, second = chunk({"ids": [1, 2], "meta": {"step": 3}}, 2)
    union(first, {"meta": {"metrics": [0.1]}})
    assert second["meta"]["metrics"] == [0.1]
    try:
        union(second, {"meta": {"metrics": [0.7]}})
    except AssertionError as error:
        return f"{error}: the second part was never given any"
    raise AssertionError


def typed() -> object:
    first, second = rows.chunk(Batch(ids=[1, 2], meta={"step": 3}), 2)
    first.meta["metrics"] = [0.1]
    second.meta["metrics"] = [0.7]
    return first.meta["metrics"] + second.meta["metrics"]
