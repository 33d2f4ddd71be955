"""The names of five libraries: from each to each, and back, with nothing lost on the way."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import batches
from typedbatch import Batch, RolloutBatch, RolloutBatchProtocol, SampleBatch, validate
from typedbatch._core.kinds import is_placeholder
from typedbatch._core.lengths import leaves
from typedbatch.errors import FieldNameError, LeafError, SettingError
from typedbatch.naming import NAMES, Convention, rename

conventions = st.sampled_from(get_args(Convention))
every_convention = pytest.mark.parametrize("to", get_args(Convention))

SAME = {
    "tianshou": ("obs", "obs_next", "act", "rew", "done", "info", "terminated", "truncated"),
    "rllib": ("obs", "new_obs", "actions", "rewards", "dones", "infos", "terminateds", "truncateds"),
    "gymnasium": ("obs", "next_obs", "action", "reward", "done", "info", "terminated", "truncated"),
    "sb3": ("observations", "next_observations", "actions", "rewards", "dones", "infos"),  # that is all it has
}
NEXT = ("observation", "reward", "terminated", "truncated", "done")


def named(names: Any) -> Batch:
    """One array per name, each with values of its own; a dot is for a nested batch."""
    fields: dict[str, Any] = {}
    for i, name in enumerate(names):
        outer, _, inner = name.partition(".")
        where = fields.setdefault(outer, {}) if inner else fields
        where[inner or outer] = np.full(2, i)
    return Batch(fields)


def firsts(batch: Batch) -> dict[str, int]:
    return {name: int(leaf[0]) for name, leaf in batch.items()}


def arrays_of(batch: Batch) -> list[int]:
    return sorted(id(leaf) for _, leaf in leaves(batch.__dict__))


def torchrl(**root: Any) -> Batch:
    inner = {name: np.full(2, i) for i, name in enumerate(NEXT)}
    return Batch({"observation": np.full(2, 10), "action": np.full(2, 11), **root, "next": inner})


@pytest.mark.parametrize("source", SAME)
@pytest.mark.parametrize("to", SAME)
def test_what_each_library_calls_them(source, to):
    shared = min(len(SAME[source]), len(SAME[to]))
    assert firsts(rename(named(SAME[source][:shared]), to)) == {name: i for i, name in enumerate(SAME[to][:shared])}


@pytest.mark.parametrize("source", ["tianshou", "rllib", "gymnasium"])
def test_torchrl_puts_what_comes_after_the_step_into_next(source):
    names = [name for i, name in enumerate(SAME[source]) if i != 5]
    renamed = rename(named(names), "torchrl")
    after = renamed.__dict__.pop("next")
    assert firsts(renamed) == {"observation": 0, "action": 2}
    assert firsts(after) == {"observation": 1, "reward": 3, "done": 4, "terminated": 5, "truncated": 6}


def test_a_name_that_a_library_has_no_word_for_stays():
    names = {"terminateds", "truncated", "weights"}
    assert set(rename(named(names), "sb3").keys()) == names


def test_values_returns_and_log_probabilities():
    ours = named(["returns", "adv", "v_s", "logp_old", "logits", "weight"])
    values = {
        "rllib": "value_targets advantages vf_preds action_logp action_dist_inputs weights",
        "sb3": "returns advantages old_values old_log_prob logits weight",
        "torchrl": "value_target advantage state_value action_log_prob logits priority_weight",
    }
    for to, names in values.items():
        assert list(rename(ours, to).keys()) == names.split()  # type: ignore[call-overload]


@given(conventions, conventions, st.data())
def test_there_and_back(one, other, data):
    names = data.draw(st.lists(st.sampled_from(NAMES[one]), unique=True))
    batch = named([*names, "mine", "nested.deep"])
    there = rename(batch, other)
    assert arrays_of(there) == arrays_of(batch)
    back = rename(there, one)
    assert back == batch
    assert arrays_of(back) == arrays_of(batch)


@given(batches(), conventions)
def test_names_that_nobody_knows_stay(batch, to):
    renamed = rename(batch, to)
    for name in batch.__dict__.keys() - set().union(*NAMES.values()):
        assert renamed[name] is batch[name] or is_placeholder(batch[name])
    assert len(list(leaves(renamed.__dict__))) == len(list(leaves(batch.__dict__)))


@given(conventions, st.data())
def test_renaming_twice_changes_nothing(to, data):
    once = rename(named(data.draw(st.lists(st.sampled_from(NAMES["tianshou"]), unique=True))), to)
    assert rename(once, to) == once


def test_the_order_of_fields_is_kept():
    assert list(rename(named(["rew", "mine", "obs", "act"]), "rllib").keys()) == ["rewards", "mine", "obs", "actions"]


def test_leaves_of_every_kind_are_the_very_same():
    batch = Batch(obs={"cam": np.zeros(2)}, rew=torch.zeros(2), info={"name": np.array(["a", None], object)}, act=None)
    renamed = rename(batch, "sb3")
    assert renamed.observations.cam is batch.obs.cam
    assert renamed.rewards is batch.rew
    assert renamed.infos.name is batch.info.name
    assert renamed.actions is None
    assert list(batch.keys()) == ["obs", "rew", "info", "act"]


def test_next_is_looked_into():
    assert firsts(rename(torchrl(), "tianshou")) == {
        "obs": 10, "act": 11, "obs_next": 0, "rew": 1, "terminated": 2, "truncated": 3, "done": 4,
    }  # fmt: skip


@every_convention
def test_flags_of_the_step_before_are_left_out(to):
    before = {name: np.full(2, 99) for name in ("done", "terminated", "truncated")}
    assert rename(torchrl(**before), to) == rename(torchrl(), to)


def test_flags_without_those_of_next_are_kept():
    batch = Batch(observation=np.zeros(2), done=np.ones(2), next={"reward": np.zeros(2)})
    assert rename(batch, "tianshou") == Batch(obs=np.zeros(2), done=np.ones(2), rew=np.zeros(2))


def test_what_nobody_knows_stays_in_next():
    batch = Batch(next={"reward": np.zeros(2), "mine": np.ones(2), "deep": {"er": np.ones(2)}})
    renamed = rename(batch, "rllib")
    assert set(renamed.keys()) == {"rewards", "next"}
    assert renamed.next.mine is batch.next.mine
    assert renamed.next.deep.er is batch.next.deep.er
    assert list(batch.next.keys()) == ["reward", "mine", "deep"]
    assert rename(renamed, "torchrl") == batch


@pytest.mark.parametrize("other", [np.zeros(2), "text", None])
@pytest.mark.parametrize("order", [("next", "rew"), ("rew", "next")])
def test_another_next_is_not_overwritten(other, order):
    """A field of that name that is not a nested batch has no place beside the one that is made."""
    fields = {"next": other, "rew": np.ones(2)}
    batch = Batch({name: fields[name] for name in order})
    with pytest.raises(FieldNameError, match="next"):
        rename(batch, "torchrl")
    assert rename(batch, "rllib")["next"] is batch["next"]


def test_a_dot_in_a_name_is_a_part_of_it():
    assert list(rename(Batch({"next.mine": np.zeros(2), "a.b": np.zeros(2)}), "rllib").keys()) == ["next.mine", "a.b"]


def test_a_reserved_next_stays():
    assert rename(Batch(obs=np.zeros(2), next={}), "rllib") == Batch(obs=np.zeros(2), next={})


@every_convention
def test_the_class(to):
    kind = SampleBatch if to == "rllib" else Batch
    flags = np.zeros(2, bool)
    record = RolloutBatch(obs=flags, act=flags, rew=flags, terminated=flags, truncated=flags, obs_next=flags, info={})
    for batch in (Batch(obs=np.zeros(2)), SampleBatch(obs=np.zeros(2)), record):
        assert type(rename(batch, to)) is kind


def test_a_rollout_of_rllib_is_one_for_the_protocol():
    flags = np.zeros(2, bool)
    theirs = SampleBatch(
        obs=np.zeros((2, 3)), new_obs=np.ones((2, 3)), actions=np.zeros(2, int), rewards=np.zeros(2),
        terminateds=flags, truncateds=flags, infos={"t": np.arange(2)},
    )  # fmt: skip
    assert validate(rename(theirs, "tianshou"), RolloutBatchProtocol).obs_next is theirs.new_obs


@pytest.mark.parametrize(
    ("names", "to", "target"),
    [
        (("obs", "observation"), "rllib", "obs"),
        (("done", "dones"), "gymnasium", "done"),
        (("reward", "next.reward"), "sb3", "rewards"),
        (("rew", "next.reward"), "torchrl", "next.reward"),
        (("v_s", "old_values"), "tianshou", "v_s"),
    ],
)
def test_two_names_for_one_thing(names, to, target):
    batch = named(names)
    with pytest.raises(FieldNameError) as caught:
        rename(batch, to)
    assert str(caught.value) == f"{names[0]!r} and {names[1]!r} would both be {target!r}; remove one of them"
    assert batch == named(names)


@pytest.mark.parametrize("to", ["", None, ["rllib"], "RLLIB"])
def test_names_of_nobody(to):
    with pytest.raises(
        SettingError, match=r"^to= must be one of tianshou, rllib, gymnasium, sb3, torchrl, typedbatch, verl, trl,"
    ):
        rename(Batch(obs=np.zeros(2)), to)


def test_a_slip_is_pointed_out():
    with pytest.raises(SettingError, match="got 'rlib'; did you mean 'rllib'"):
        rename(Batch(), "rlib")  # type: ignore[call-overload]


def test_what_is_no_batch():
    with pytest.raises(LeafError, match=r"rename\(\) takes a Batch, got dict"):
        rename({"obs": np.zeros(2)}, "rllib")  # type: ignore[call-overload]


def test_an_unknown_source_is_refused_for_an_empty_batch_too():
    for to, source in (("trl", "nonsense"), ("typedbatch", None)):
        with pytest.raises(SettingError, match="source="):
            rename(Batch(), to, source)
