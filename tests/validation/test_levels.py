"""off, structure, values: in the environment, for a block, for one boundary."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.validation.helpers import Array
from typedbatch import (
    Batch,
    BatchRecord,
    Finite,
    SchemaError,
    checked,
    checking,
    conforms,
    convert,
    extend,
    rule,
    validate,
)
from typedbatch.errors import SettingError


class Rollout(BatchRecord):
    rew: Annotated[Array, Finite]


wrong, infinite, good = Batch(), Batch(rew=[np.inf]), Batch(rew=[1.0])


@checked
def learn(batch: Rollout) -> int:
    return len(batch)


@checked(level="values")
def careful(batch: Rollout) -> int:
    return len(batch)


def passes(function: Any, *args: Any, **kwargs: Any) -> bool:
    try:
        function(*args, **kwargs)
    except SchemaError:
        return False
    return True


def seen() -> str:
    """The level that holds, from what it lets pass."""
    return "off" if passes(learn, wrong) else "structure" if passes(learn, infinite) else "values"


def test_the_level_of_a_block_and_blocks_inside_blocks():
    assert seen() == "structure"
    with checking("values"):
        assert seen() == "values"
        with checking("off"):
            assert seen() == "off"
        assert seen() == "values"
    assert seen() == "structure"


def test_a_block_that_raises_restores_the_level():
    with pytest.raises(ZeroDivisionError), checking("off"):
        _ = 1 // 0
    assert seen() == "structure"


def test_as_a_decorator():
    @checking("values")
    def inside() -> str:
        return seen()

    assert inside() == "values"
    assert inside() == "values"
    assert seen() == "structure"


def test_a_boundary_of_its_own_level_keeps_it():
    assert not passes(careful, infinite)
    with checking("off"):
        assert not passes(careful, infinite)
        assert not passes(validate, infinite, Rollout, level="values")
        assert not passes(validate, wrong, Rollout, level="structure")
    with checking("values"):
        assert passes(validate, infinite, Rollout, level="structure")
        assert passes(validate, wrong, Rollout, level="off")


def test_off_still_hands_out_the_type_and_conforms_still_answers():
    with checking("off"):
        view = validate(wrong, Rollout)
        assert type(view) is Rollout
        assert view.__dict__ is wrong.__dict__
        assert validate(5, Rollout) == 5  # type: ignore[comparison-overlap]
        assert not conforms(wrong, Rollout)


def test_extend_and_convert_follow_the_level():
    assert passes(extend, Batch(), Rollout, rew=[np.inf])
    with checking("values"):
        assert not passes(extend, Batch(), Rollout, rew=[np.inf])
        assert not passes(convert, infinite, Rollout)
    with checking("off"):
        assert passes(convert, wrong, Rollout)


def test_a_function_decorated_inside_an_off_block_is_left_as_it_is():
    def plain(batch: Rollout) -> None: ...

    with checking("off"):
        assert checked(plain) is plain
        assert checked(Rollout) is Rollout
        assert checked(level=None)(plain) is plain
        assert checked(level="structure")(plain) is not plain
    assert checked(level="off")(plain) is plain


def test_threads_and_tasks_have_their_own():
    levels: list[str] = []
    with checking("values"):
        thread = threading.Thread(target=lambda: levels.append(seen()))
        thread.start()
        thread.join()

    async def main() -> None:
        async def inside(level: Any) -> None:
            with checking(level):
                await asyncio.sleep(0.001)
                levels.append(seen())

        await asyncio.gather(inside("off"), inside("values"))

    asyncio.run(main())
    assert levels[0] == "structure"
    assert set(levels[1:]) == {"off", "values"}


@pytest.mark.parametrize("level", ["vlaues", "", "on", None, 1])
def test_a_level_that_does_not_exist_is_refused(level: Any):
    text = f"is {level!r}; the levels are 'off', 'structure', 'values'"
    with pytest.raises(SettingError, match=text), checking(level):
        pass
    if level:
        with pytest.raises(SettingError, match=text):
            validate(good, Rollout, level=level)
        with pytest.raises(SettingError, match=text):
            checked(level=level)


CODE = """
import numpy as np
from typing import Annotated
from numpy.typing import NDArray
import typedbatch as tb
class Rollout(tb.BatchRecord):
    rew: Annotated[NDArray, tb.Finite]
def learn(batch: Rollout): pass
checked = tb.checked(learn)
def passes(batch):
    try:
        checked(batch)
    except tb.SchemaError:
        return False
    return True
print(checked is learn, passes(tb.Batch()), passes(tb.Batch(rew=[np.inf])))
"""


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("off", "True True True"), ("OFF", "True True True"), ("structure", "False False True"),
        ("", "False False True"), ("Values", "False False False"),
    ],
)  # fmt: skip
def test_the_environment_sets_the_level(value: str, printed: str):
    env = {**os.environ, "TYPEDBATCH_CHECK": value}
    run = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == printed


def test_a_mistake_in_the_environment_is_not_passed_over():
    env = {**os.environ, "TYPEDBATCH_CHECK": "vlaues"}
    code = "from typedbatch import validate"
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "TYPEDBATCH_CHECK is 'vlaues'; the levels are 'off', 'structure', 'values'" in run.stderr


class Weighted(BatchRecord):
    rew: Annotated[NDArray[np.float64], Finite]
    weight: NDArray[np.float64]

    @rule("weights are not negative")
    def not_negative(self) -> Any:
        return self.weight >= 0

    @rule("weights sum to 1")
    def sum_to_one(self) -> Any:
        return bool(abs(self.weight.sum() - 1) < 1e-6)


def weighted(rows: int, *, wrong: int | None = None) -> Weighted:
    rew, weight = np.ones(rows), np.full(rows, 1 / rows)
    if wrong is not None:
        rew[wrong], weight[wrong] = np.nan, -1.0
    return Weighted(rew=rew, weight=weight)


def test_values_of_the_first_rows_alone_are_read():
    with checking("values", first=4):
        validate(weighted(8), Weighted)
        validate(weighted(8, wrong=6), Weighted)
        with pytest.raises(SchemaError) as caught:
            validate(weighted(8, wrong=2), Weighted)
    assert [(problem.path, problem.code) for problem in caught.value.problems] == [
        ("rew", "TB401 wrong-values"),
        ("", "TB402 broken-rule"),
    ]
    assert "not so in 1 of 4 rows" in caught.value.problems[1].got


def test_a_rule_for_the_whole_batch_is_tried_if_there_are_no_more_rows():
    batch = weighted(4)
    batch.weight = batch.weight * 2
    with checking("values", first=4), pytest.raises(SchemaError, match="weights sum to 1"):
        validate(batch, Weighted)
    with checking("values", first=3):
        validate(batch, Weighted)


def test_the_first_rows_in_an_inner_block():
    with checking("values", first=2):
        with checking("values"), pytest.raises(SchemaError):
            validate(weighted(8, wrong=6), Weighted)
        validate(weighted(8, wrong=6), Weighted)


@pytest.mark.parametrize(("name", "of"), [("first", "rows"), ("batches", "batches")])
def test_a_number_of_rows_or_batches(name, of):
    for number in (0, -1, 2.5, True, "4"):
        words = f"{name}= must be a number of {of} from 1"
        with pytest.raises(SettingError, match=words), checking("values", **{name: number}):
            pass
    with pytest.raises(SettingError, match=f"{name}= is for the level 'values'"), checking("structure", **{name: 4}):
        pass


class Bounded(BatchRecord):
    x: Annotated[NDArray[np.float64], Finite]


def test_values_of_the_first_batches_at_each_boundary_alone():
    @checked
    def one(batch: Bounded) -> None: ...

    @checked
    def other(batch: Bounded) -> None: ...

    right, wrong = Bounded(x=np.ones(2)), Bounded(x=np.full(2, np.nan))
    with checking("values", batches=2):
        for function in (one, other):
            function(right)
            with pytest.raises(SchemaError, match="finite"):
                function(wrong)
            function(wrong)  # the third batch here
            with pytest.raises(SchemaError, match="missing"):
                function(Batch())
        found = []
        for _ in range(3):
            try:
                validate(wrong, Bounded | None)
                found.append("nothing")
            except SchemaError:
                found.append("an error")
        assert found == ["an error", "an error", "nothing"]
        with pytest.raises(SchemaError, match="finite"):
            validate(wrong, Bounded)  # another line
    with checking("values", batches=1), pytest.raises(SchemaError, match="finite"):  # Each block counts for itself.
        one(wrong)


def test_the_variable_of_the_environment_takes_numbers_of_rows_and_batches():
    code = "from typedbatch._core.level import default_level; print(default_level())"
    for text in ("values:first=16", "values:batches=3", "values:first=16:batches=3", "structure"):
        environment = {**os.environ, "TYPEDBATCH_CHECK": text}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == text
    for text, words in (
        ("values:batches=x", "must be a whole number"),
        ("off:first=4", "is for the level 'values'"),
        ("values:rows=3", "must be a whole number, as in 'values:first=256' or 'values:batches=3'"),
        ("values:3", "the levels are"),
        ("structure:batches=3", "is for the level 'values'"),
    ):
        environment = {**os.environ, "TYPEDBATCH_CHECK": text}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
        assert words in run.stderr, text
