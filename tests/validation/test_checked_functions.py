"""Every kind of parameter, function and decorator under checked."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import (
    Any,
    TypeVar,
)

import numpy as np
import pytest
import torch

from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    Batch,
    ObsBatchProtocol,
    SchemaError,
    checked,
    validate,
)
from typedbatch.errors import DeclarationError

good, bad = Batch(act=np.zeros(2)), Batch()


def test_checked_and_every_kind_of_parameter():
    @checked
    def after_args(*numbers: int, batch: ActBatch) -> Any:
        return numbers, batch

    assert after_args(1, 2, 3, batch=good)[0] == (1, 2, 3)
    with pytest.raises(SchemaError, match="argument `batch`"):
        after_args(1, 2, 3, batch=bad)

    @checked
    def positional(batch: ActBatch, /, **rest: Any) -> Any:
        return rest

    assert positional(good, batch=5) == {"batch": 5}

    @checked
    def default(batch: ActBatch | None = None, *, other: ActBatch = bad) -> Any:  # type: ignore[assignment]
        return batch

    assert default() is None  # a default is the function's own, as everywhere in Python


def test_checked_sees_every_batch_of_star_args_and_of_keywords():
    @checked
    def several(*batches: ActBatch) -> int:
        return len(batches)

    @checked
    def named(**batches: ActBatch) -> int:
        return len(batches)

    assert several(good, good) == named(one=good, two=good) == 2
    with pytest.raises(SchemaError):
        several(good, bad)
    with pytest.raises(SchemaError):
        named(one=good, two=bad)


def test_checked_below_and_above_staticmethod_and_classmethod():
    class Policy:
        @staticmethod
        @checked
        def below(batch: ActBatch) -> int:
            return len(batch)

        @classmethod
        @checked
        def below_too(cls, batch: ActBatch) -> int:
            return len(batch)

    assert Policy.below(good) == Policy().below_too(good) == 2
    for wrapper in (staticmethod, classmethod):
        try:

            class Above:
                method = checked(wrapper(lambda *args: len(args)))  # type: ignore[arg-type]

        except TypeError:
            continue  # refused when the class is made: just as good
        assert Above.method(good) == Above().method(good)


@pytest.mark.parametrize(
    "wrap", [functools.lru_cache, torch.no_grad(), functools.partial], ids=["cache", "grad", "partial"]
)
def test_checked_on_wrapped_functions(wrap: Any):
    def make(n: int = 2) -> ActBatch:
        return Batch(act=np.zeros(n)) if n else bad  # type: ignore[return-value]

    function = checked(wrap(make))
    assert type(function(2)) is ActBatch
    with pytest.raises(SchemaError, match=r"test_checked_functions\.py"):
        function(0)


def test_checked_on_an_object_that_can_be_called():
    class Actor:
        def __call__(self, batch: ActBatch) -> int:
            return len(batch)

    try:
        actor = checked(Actor())
    except TypeError:
        return  # refused at once: just as good
    assert actor(good) == 2


def test_checked_does_not_stumble_over_an_annotation_that_is_none_of_its_business():
    """``model: nn.Module`` with the import under TYPE_CHECKING is how most training code is written."""

    @checked
    def update(model: OnlyForCheckers, batch: ActBatch) -> AlsoOnlyForCheckers:  # type: ignore[name-defined]
        return len(batch)

    assert update(object(), good) == 2
    with pytest.raises(SchemaError):
        update(object(), bad)


def test_checked_on_a_generic_function_checks_the_bound():
    @checked
    def same(batch: Bound) -> Bound:
        return batch

    assert same(good) is not None
    with pytest.raises(SchemaError):
        same(bad)


Bound = TypeVar("Bound", bound=ActBatchProtocol)


def test_checked_on_a_coroutine_checks_what_it_returns_or_refuses_it_at_once():
    async def act(batch: ActBatch) -> ActBatch:
        return batch

    try:
        function = checked(act)
    except DeclarationError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result: Any = function(good)
        except SchemaError:
            result = None
    assert inspect.isawaitable(result)
    assert type(asyncio.run(result)) is ActBatch


def test_checked_on_a_generator_checks_its_arguments_when_it_starts():
    @checked
    def rows(batch: ActBatch) -> Iterator[ActBatch]:
        yield from batch.split(1)

    assert len(list(rows(good))) == 2
    with pytest.raises(SchemaError):
        next(rows(bad))


def test_checked_names_the_users_file_below_another_decorator():
    @checked
    @torch.no_grad()
    def update(batch: ActBatch) -> int:
        return len(batch)

    with pytest.raises(SchemaError, match=r"test_checked_functions\.py:\d+"):
        update(bad)


@pytest.mark.parametrize(
    ("value", "off"), [("off", True), ("OFF", True), ("", False), ("structure", False), ("values", False)]
)
def test_only_off_turns_checked_off(value: str, off: bool):
    code = f"import typedbatch as tb\ndef f(b: tb.RolloutBatch) -> None: ...\nassert (tb.checked(f) is f) is {off}"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "TYPEDBATCH_CHECK": value})


def test_observations_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    obs, info = gymnasium.make_vec("CartPole-v1", num_envs=3).reset(seed=0)
    assert validate(Batch(obs=obs, info=info), ObsBatchProtocol)["obs"].shape == (3, 4)
