"""The methods that a batch shares with a dict, and the ways into dicts."""

from __future__ import annotations

from tests.ops.helpers import assert_array, assert_shows, rollout
from typedbatch import Batch


def test_keys_values_and_items_are_those_of_a_dict():
    batch = Batch(a=4, b=[5, 5])
    assert list(batch.keys()) == list(batch.get_keys()) == ["a", "b"]
    assert [value.tolist() for value in batch.values()] == [4, [5, 5]]
    assert {key: value.tolist() for key, value in batch.items()} == {"a": 4, "b": [5, 5]}


def test_update_sets_several_fields():
    batch = Batch(a=4, b=[5, 5])
    batch.update(c=1, d=2, e=3)
    assert_shows(
        batch,
        """
        Batch(
            a: array(4),
            b: array([5, 5]),
            c: array(1),
            d: array(2),
            e: array(3),
        )
        """,
    )


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


def test_setdefault_returns_what_the_value_became():
    assert_array(Batch(a=[1]).setdefault("b", [1, 2]), [1, 2])


def test_to_dict_goes_all_the_way_down_unless_told_not_to():
    batch = rollout()
    assert type(batch.to_dict()["obs"]) is dict
    assert batch.to_dict(recursive=False)["obs"] is batch.obs
    assert batch.to_dict()["rew"] is batch.rew


def test_to_list_of_dicts_gives_a_dict_per_row():
    rows = Batch(a=[1, 2], n={"b": ["x", "y"]}).to_list_of_dicts()
    assert rows == [{"a": 1, "n": {"b": "x"}}, {"a": 2, "n": {"b": "y"}}]
    assert type(rows[0]["n"]) is dict
