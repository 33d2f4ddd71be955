"""Reading, setting and deleting single fields, and what is said about one that is missing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.helpers import assert_shows
from typedbatch import Batch, RolloutBatch, errors
from typedbatch.errors import TypedBatchError


def test_fields_are_added_replaced_and_deleted():
    batch = Batch({"a": [4, 4], "b": (5, 5)})
    batch.c = Batch(c1=np.arange(3), c2=False)
    del batch.a
    batch.b = np.array([3, 4, 5])
    assert_shows(
        batch,
        """
        Batch(
            b: array([3, 4, 5]),
            c: Batch(
                   c1: array([0, 1, 2]),
                   c2: array(False),
               ),
        )
        """,
    )
    assert batch["c"] is batch.c
    assert "c" in batch
    assert "a" not in batch


def test_hasattr_and_contains_agree():
    batch = Batch(a=1)
    assert hasattr(batch, "a")
    assert not hasattr(batch, "b")
    assert "a" in batch
    assert "b" not in batch
    assert 0 not in batch


def test_values_live_in_the_instance_dict():
    array = np.zeros(2)
    batch = Batch(a=array)
    assert batch.__dict__ == {"a": array}
    batch.__dict__["b"] = array
    assert batch.b is array
    assert list(batch.keys()) == ["a", "b"]


@pytest.mark.parametrize("read", [lambda b: b.adv, lambda b: b["adv"]], ids=["attribute", "item"])
@pytest.mark.parametrize("error", [AttributeError, KeyError])
def test_an_unknown_field_is_an_attribute_error_and_a_key_error(read, error):
    with pytest.raises(error):
        read(Batch(act=1))


@pytest.mark.parametrize("read", [lambda b: b.reward, lambda b: b["reward"], lambda b: b.__delitem__("reward")])
def test_a_missing_field_names_the_batch_the_field_and_what_there_is(read):
    with pytest.raises(errors.MissingFieldError) as caught:
        read(Batch(obs=[1], act=[1], rewards=[1]))
    text = str(caught.value)
    assert text.startswith("Batch has no field 'reward'; it has obs, act, rewards")
    assert "did you mean 'rewards'" in text
    assert "dict" not in text


def test_a_missing_field_of_a_record_names_the_record():
    with pytest.raises(AttributeError, match="RolloutBatch has no field 'adv'"):
        _ = RolloutBatch(obs=1, info=1, obs_next=1, act=1, rew=1, terminated=1, truncated=1)["adv"]


@pytest.mark.parametrize("index", [0, None, slice(0, 1), 1.5], ids=repr)
def test_deleting_rows_is_refused_in_words(index):
    with pytest.raises(TypedBatchError) as caught:
        del Batch(a=[1, 2])[index]
    assert str(caught.value)
