"""Names and values of fields: read, set, deleted, and the methods that a batch shares with a dict."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tests.ops.helpers import assert_array, rollout
from typedbatch import Batch, RolloutBatch, errors, objects
from typedbatch._ops.combine import CALLED_ON_BATCHES
from typedbatch.errors import TypedBatchError


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


def test_keys_values_and_items_are_those_of_a_dict():
    batch = Batch(a=4, b=[5, 5])
    assert list(batch.keys()) == list(batch.get_keys()) == ["a", "b"]
    assert [value.tolist() for value in batch.values()] == [4, [5, 5]]
    assert {key: value.tolist() for key, value in batch.items()} == {"a": 4, "b": [5, 5]}


def test_update_takes_a_dict_a_batch_keywords_and_both():
    batch = Batch(a=1)
    batch.update({"b": [1]})
    batch.update(Batch(c=[2]))
    batch.update(d=[3])
    batch.update({"e": [4]}, f=[5])
    batch.update()
    assert list(batch.keys()) == ["a", "b", "c", "d", "e", "f"]
    assert_array(batch.e, [4])


def test_get_and_pop_return_the_default_for_an_unknown_name():
    batch = Batch(a=[1, 2])
    assert batch.get("a") is batch.a
    assert batch.get("b") is None
    assert batch.get("b", 3) == 3
    assert batch.get("b", default=3) == 3
    assert batch.pop("b", 3) == 3
    assert batch.pop("b") is None
    assert_array(batch.pop("a"), [1, 2])
    assert "a" not in batch


def test_the_dict_methods_that_tianshou_lets_through_work():
    batch = Batch(a=1, b=2)
    assert batch.popitem()[0] == "b"
    assert batch.setdefault("a", 5) == 1
    assert batch.setdefault("c", 5) == 5
    batch.clear()
    assert list(batch.keys()) == []


def test_to_dict_goes_all_the_way_down_unless_told_not_to():
    batch = rollout()
    assert type(batch.to_dict()["obs"]) is dict
    assert batch.to_dict(recursive=False)["obs"] is batch.obs
    assert batch.to_dict()["rew"] is batch.rew


@pytest.mark.parametrize(
    "make",
    [
        lambda: Batch({1: "value", 2: "other"}),
        lambda: Batch(a={1: 2}),
        lambda: Batch([{1: 2}]),
        lambda: Batch().update({1: 2}),
    ],
)
def test_names_that_are_no_strings_are_refused(make):
    with pytest.raises(AssertionError, match="string"):
        make()


def test_a_dict_of_other_keys_is_kept_as_an_object():
    with pytest.raises(errors.FieldNameError, match=r"field 'a': .* among \[1\]; objects\(\[\.\.\.\]\) makes a column"):
        Batch(a={1: "x"})
    assert Batch(a=objects([{1: "x"}])).a[0] == {1: "x"}


@pytest.mark.parametrize("name", sorted(CALLED_ON_BATCHES))
@pytest.mark.parametrize(
    "make",
    [
        lambda name: Batch({name: [1]}), lambda name: Batch(**{name: [1]}), lambda name: Batch(a={name: [1]}),
        lambda name: Batch([{name: 1}]), lambda name: Batch().update({name: [1]}),
        lambda name: Batch().__setitem__(name, [1]), lambda name: Batch.stack([{name: 1}]),
        lambda name: Batch().set_array_at_key(np.zeros(2), name),
    ],
)  # fmt: skip
def test_names_that_python_would_call_on_the_batch_are_refused(name, make):
    with pytest.raises(errors.FieldNameError, match=f"'{name}' cannot be a field: copy, pickle or numpy would call it"):
        make(name)


@pytest.mark.parametrize("name", ["items", "a.b", "shape", "x y", "", "1", "__class__", "batch_dict", "batch", "größe"])
def test_any_string_is_a_name_for_item_access(name):
    batch = Batch()
    batch[name] = [1, 2]
    assert_array(batch[name], [1, 2])
    assert name in batch
    assert batch[1:][name].tolist() == [2]
    batch.update({name: [3]})
    assert pickle.loads(pickle.dumps(batch))[name].tolist() == [3]
    del batch[name]
    assert len(batch.keys()) == 0


SHADOWING = {name: [1, 2, 3] for name in dir(Batch) if not name.startswith("__")} | {
    "self": [1, 2, 3],
    "data": [1, 2, 3],
}


@pytest.mark.parametrize(
    "operation",
    [
        lambda b: pickle.loads(pickle.dumps(b)),
        copy.copy,
        copy.deepcopy,
        Batch,
        lambda b: Batch(b, copy=True),
        lambda b: b[:],
        lambda b: b[[0, 1, 2]],
        Batch.to_torch,
        lambda b: Batch.to(Batch.to_torch(b), "cpu"),
        Batch.to_numpy,
        Batch.dropnull,
        Batch.copy,
        lambda b: Batch.cat([b[:1], b[1:]]),
        lambda b: Batch.stack(list(b)),
        lambda b: Batch(Batch.to_list_of_dicts(b)),
        lambda b: Batch(Batch.to_dict(b)),
        lambda b: Batch.cat(list(Batch.split(b, 2, shuffle=False))),
        lambda b: Batch.apply_values_transform(b, lambda leaf: leaf),
        lambda b: b + 0,
        lambda b: Batch.isnull(b) + b,
        lambda b: np.sort(b),
        Batch.to_at_least_2d,
        Batch.empty,
    ],
)
def test_a_field_may_have_any_methods_name(operation):
    batch = Batch(SHADOWING)
    result = operation(batch)
    assert list(result.__dict__) == list(SHADOWING)
    assert all(value.shape[-1] == 3 for value in result.__dict__.values())
    assert batch["copy"].tolist() == [1, 2, 3]
    assert len(batch) == 3
    assert batch == Batch(SHADOWING)
    assert "copy" in batch
    assert "'copy'" in repr(batch) or "copy: array([1, 2, 3])" in repr(batch)


def test_rows_of_a_batch_with_methods_names_are_assigned():
    batch = Batch(SHADOWING)
    batch[0] = dict.fromkeys(SHADOWING, 9)
    assert {tuple(value) for value in batch.__dict__.values()} == {(9, 2, 3)}


def test_a_flag_called_copy_is_never_taken_for_a_field_or_the_other_way_round():
    with pytest.raises(errors.LeafError, match="copy"):
        Batch(copy=np.arange(3))
    assert_array(Batch({"copy": np.arange(3)})["copy"], [0, 1, 2])


def test_a_field_named_batch_can_be_updated_by_keyword():
    batch = Batch()
    batch.update(batch=[1], self=[2])
    assert list(batch.keys()) == ["batch", "self"]
