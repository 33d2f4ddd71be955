"""The second tier: rules on values, off unless asked for."""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any, Protocol

import annotated_types as at
import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from tests.validation.helpers import Array, record
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    Finite,
    Rule,
    SchemaError,
    Sorted,
    Unique,
    checking,
    conforms,
    rule,
    validate,
)
from typedbatch.errors import DeclarationError


def kind_of_value(value: object) -> str:
    """An id that is the same in every process."""
    return type(value).__name__


def codes(batch: Any, schema: Any) -> list[str]:
    """The problems at the level of values; the structure is right."""
    assert conforms(batch, schema)
    validate(batch, schema)  # by default values are not looked at
    try:
        validate(batch, schema, level="values")
    except SchemaError as error:
        return [f"{problem.path} {problem.code[:5]}" for problem in error.problems]
    return []


def holds(metadata: Any, values: Any) -> bool:
    """The verdict for an array and for a tensor, which must be the same."""
    verdicts = [
        not codes(Batch(x=np.asarray(values)), record(x=Annotated[Array, metadata])),
        not codes(Batch(x=torch.as_tensor(np.asarray(values))), record(x=Annotated[Tensor, metadata])),
    ]
    assert verdicts[0] == verdicts[1]
    return verdicts[0]


@pytest.mark.parametrize(
    ("metadata", "good", "bad"),
    [
        (at.Ge(0), [0, 1], [0, -1]),
        (at.Gt(0), [1, 2], [0, 1]),
        (at.Le(1), [1, 0], [1, 2]),
        (at.Lt(1), [0, -1], [1, 0]),
        (at.Interval(ge=0, lt=1), [0.0, 0.5], [0.0, 1.0]),
        (at.MultipleOf(3), [3, 6, 0], [3, 4]),
        (at.MinLen(2), [1, 2], [1]),
        (at.MaxLen(2), [1, 2], [1, 2, 3]),
        (at.Len(1, 2), [1], [1, 2, 3]),
        (at.Predicate(math.isfinite), [1.0, 2.0], [1.0, math.inf]),
        (at.Predicate(lambda x: x != 3), [1, 2], [1, 3]),
        (Finite, [1.0, -2.0], [1.0, math.nan]),
        (Finite, [1, 2], [1.0, math.inf]),
        (Sorted, [1, 2, 2], [2, 1]),
        (Unique, [2, 1, 3], [1, 2, 1]),
        (Unique, [[1, 2], [2, 1]], [[1, 2], [1, 2]]),
        (Rule("a row that sums to one", lambda x: abs(x.sum(1) - 1) < 1e-6), [[0.5, 0.5]], [[0.5, 0.6]]),
    ],
    ids=kind_of_value,
)
def test_rules_on_one_field(metadata: Any, good: Any, bad: Any):
    assert holds(metadata, good)
    assert not holds(metadata, bad)


@pytest.mark.parametrize("metadata", [at.Ge(0), Finite, Sorted, Unique, at.Predicate(math.isfinite)], ids=kind_of_value)
def test_no_rows_break_no_rule(metadata: Any):
    assert holds(metadata, np.zeros((0, 2)))


def test_nan_is_within_no_bound():
    assert not holds(at.Ge(0), [math.nan])
    assert not holds(at.Le(0), [math.nan])


def test_notes_that_are_no_rules_are_left_alone():
    assert holds("in metres", [1, 2])
    assert holds(at.Unit("m"), [1, 2])


def test_rules_reach_into_nested_batches_unions_and_dicts():
    inner = record(x=Annotated[Array, at.Ge(0)])
    schema = record(a=inner, b=inner | None, c=dict[str, Annotated[Array, at.Ge(0)]], d=Annotated[Batch, Finite])
    batch = Batch(a=Batch(x=[-1]), b=Batch(x=[-1]), c=Batch(p=[1], q=[-1]), d=Batch(e=Batch(f=[math.nan]), g=[1.0]))
    assert codes(batch, schema) == ["a.x TB401", "b.x TB401", "c.q TB401", "d.e.f TB401"]
    assert codes(Batch(a=Batch(x=[1]), b=None, c=Batch(), d=Batch()), schema) == []


def test_each_alternative_of_a_union_has_its_own_rules():
    schema = record(x=Annotated[Float[np.ndarray, "N"], at.Le(1)] | Annotated[Int[np.ndarray, "N"], at.Ge(5)] | None)
    assert codes(Batch(x=[0.5]), schema) == codes(Batch(x=[6]), schema) == codes(Batch(x=None), schema) == []
    assert codes(Batch(x=[1.5]), schema) == codes(Batch(x=[4]), schema) == ["x TB401"]
    both = record(x=Annotated[Array | Tensor, Finite])
    assert codes(Batch(x=torch.tensor([math.nan])), both) == codes(Batch(x=[math.nan]), both) == ["x TB401"]


class Rollout(BatchRecord):
    act: Array
    rew: Annotated[Array, Finite]

    @rule("an action of 0 has no reward")
    def idle(self) -> Array:
        return (self.act != 0) | (self.rew == 0)

    @rule("something happens")
    def busy(self) -> bool:
        return self.total() > 0

    def total(self) -> float:
        return float(abs(self.act).sum())


class Quiet(Rollout):
    done: Array

    def busy(self) -> bool:  # defined again without the mark: no rule any more
        return False

    @rule("an episode ends")
    def ends(self) -> Array:
        return self.done.any()  # a numpy bool is one answer


def test_rules_across_fields_are_inherited_and_may_be_replaced():
    assert codes(Batch(act=[0, 1], rew=[0.0, 1.0]), Rollout) == []
    assert codes(Batch(act=[0, 0], rew=[1.0, 0.0]), Rollout) == [" TB402", " TB402"]
    assert codes(Batch(act=[0, 0], rew=[1.0, 0.0], done=[False, True]), Quiet) == [" TB402"]
    assert codes(Batch(act=[1, 0], rew=[1.0, 0.0], done=[False, False]), Quiet) == [" TB402"]


def test_rules_of_a_nested_record_are_asked_of_the_nested_batch():
    schema = record(inner=Rollout, many=dict[str, Rollout])
    good, bad = Batch(act=[1], rew=[1.0]), Batch(act=[0], rew=[0.0])
    assert codes(Batch(inner=bad, many=Batch(one=good, two=Batch(bad))), schema) == ["inner TB402", "many.two TB402"]


def test_a_rule_may_be_a_function_that_several_records_name():
    def paid(batch: Any) -> Any:
        return batch.rew > 0

    class Strict(BatchRecord):
        rew: Array
        positive = rule(paid, "each step is paid")
        total = rule(lambda batch: batch.rew.sum() < 5, "rewards sum to less than 5")

    class Other(BatchRecord):
        rew: Array
        positive = rule(functools.partial(paid), "rewards are positive")

    assert codes(Batch(rew=[1.0, 2.0]), Strict) == []
    assert codes(Batch(rew=[0.0, 9.0]), Strict) == [" TB402", " TB402"]
    with pytest.raises(SchemaError, match=r"each step is paid.*\n +the rule Strict\.positive"):
        validate(Batch(rew=[0.0, 1.0]), Strict, level="values")
    with pytest.raises(SchemaError, match="rewards are positive"):
        validate(Batch(rew=[0.0, 1.0]), Other, level="values")


@pytest.mark.parametrize(
    "given", [("words", lambda batch: True), (lambda batch: True, 3), (int, "words"), (3, "words")]
)
def test_a_rule_of_a_function_takes_the_function_then_the_words(given: Any):
    with pytest.raises(DeclarationError, match=r"rule\(\) takes a function of the batch, then words, got "):
        rule(*given)


def test_rules_in_a_protocol():
    class Paid(BatchProtocol, Protocol):
        @property
        def rew(self) -> Annotated[Array, at.Ge(0)]: ...

        @rule("there is a reward")
        def some(self) -> bool:
            return bool(self.rew.any())

    assert codes(Batch(rew=[1.0]), Paid) == []
    assert codes(Batch(rew=[0.0]), Paid) == [" TB402"]
    assert codes(Batch(rew=[-1.0]), Paid) == ["rew TB401"]


def test_a_rule_that_raises_is_a_problem_of_its_own():
    schema = record(x=Annotated[Array, at.Predicate(lambda x: 1 // 0), Finite])
    assert codes(Batch(x=[1.0]), schema) == ["x TB403"]
    assert codes(Batch(x=np.array(["a", None])), record(x=Annotated[NDArray[np.object_], Finite])) == ["x TB403"]


def test_rules_are_asked_only_when_the_structure_is_right():
    with pytest.raises(SchemaError) as caught:
        validate(Batch(act=torch.zeros(1), rew=[math.nan]), Rollout, level="values")
    assert [problem.code[:5] for problem in caught.value.problems] == ["TB202"]


def test_of_two_schemas_the_one_whose_values_fit_is_taken():
    low, high = record(x=Annotated[Array, at.Lt(0)]), record(x=Annotated[Array, at.Gt(0)])
    with checking("values"):
        assert type(validate(Batch(x=[1]), low | high)) is high
        assert type(validate(Batch(x=[-1]), low | high)) is low


def test_nothing_is_changed_or_copied():
    batch = Batch(act=[1, 2], rew=[1.0, math.nan])
    before = dict(batch.__dict__)
    codes(batch, Rollout)
    assert all(batch.__dict__[name] is value for name, value in before.items())


def test_small_integers_of_torch_are_compared_as_they_are():
    """Torch turns the limit into the tensor's dtype, where 256 is 0."""
    schema = record(x=Annotated[Tensor, at.Lt(256), at.Ge(-1)])
    assert codes(Batch(x=torch.tensor([0, 255], dtype=torch.uint8)), schema) == []
    assert codes(Batch(x=torch.tensor([0, 255], dtype=torch.uint8)), record(x=Annotated[Tensor, at.Lt(255)])) == [
        "x TB401"
    ]


def test_rules_on_a_batch_are_for_its_numbers():
    schema = record(x=Annotated[Batch, Finite])
    assert codes(Batch(x=Batch(a=[1.0], reserved=Batch(), none=None, text="a")), schema) == []


def test_a_predicate_on_tensors_that_require_grad():
    schema = record(x=Annotated[Tensor, at.Predicate(math.isfinite)])
    assert codes(Batch(x=torch.ones(2).requires_grad_()), schema) == []
    assert codes(Batch(x=torch.tensor([[1.0], [math.inf]])), schema) == ["x TB401"]


@pytest.mark.parametrize("answer", [[True, False], (False,), np.array([True, False]), torch.tensor([False])])
def test_answers_for_each_row_may_come_in_a_list(answer: Any):
    class Own(BatchRecord):
        x: Array

        @rule("so")
        def so(self) -> Any:
            return answer

    assert codes(Batch(x=[1.0]), Own) == [" TB402"]


@pytest.mark.parametrize("answer", ["yes", NotImplemented, None, (x for x in [True])])
def test_what_is_no_answer_is_a_rule_that_fails(answer: Any):
    class Own(BatchRecord):
        x: Array

        @rule("so")
        def so(self) -> Any:
            return answer

    assert codes(Batch(x=[1.0]), Own) == [" TB403"]


@pytest.mark.parametrize("wrapper", [staticmethod, classmethod, property])
def test_a_rule_is_a_plain_method(wrapper: Any):
    for order in (lambda f: wrapper(rule("so")(f)), lambda f: rule("so")(wrapper(f))):
        try:
            type("Own", (BatchRecord,), {"so": order(lambda self: True)})
        except DeclarationError as error:
            assert "plain method" in str(error)  # noqa: PT017  # a property above the mark is none, and no rule either


def test_of_nested_records_that_differ_in_sizes_the_right_ones_rules_are_asked():
    one, two = record(a=Float[np.ndarray, "N"]), record(a=Annotated[Float[np.ndarray, "m"], at.Ge(0)])
    schema = record(x=Array, p=one | two)
    assert codes(Batch(x=[0.0] * 3, p=Batch(a=[-1.0] * 3)), schema) == []
    assert codes(Batch(x=[0.0] * 3, p=Batch(a=[-1.0] * 4)), schema) == ["p.a TB401"]
    three = record(x=Annotated[Float[np.ndarray, "N 3"], at.Ge(0)] | Float[np.ndarray, "N 4"])
    assert codes(Batch(x=-np.ones((5, 4))), three) == []
    assert codes(Batch(x=-np.ones((5, 3))), three) == ["x TB401"]
