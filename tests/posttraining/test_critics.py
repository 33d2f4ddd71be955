"""Values and advantages of tokens, in every layout, beside loops over one row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.posttraining.test_helpers import WORDS, Causal, small, with_prompts
from tests.posttraining.test_layouts import LAYOUTS, PAD
from typedbatch import conforms
from typedbatch.audit import audit_logp, audit_stage, audit_values
from typedbatch.audit.references import token_gae as reference
from typedbatch.errors import LeafError, SettingError, StructureError
from typedbatch.posttraining import HasValues, PackedValueProtocol, to_layout, token_gae, token_logp, token_values
from typedbatch.testing import example


class Critic(Causal):
    """A number at each token, of the sum of the tokens so far and the position."""

    def __init__(self, *, trailing: bool = False) -> None:
        super().__init__()
        self.head = nn.Linear(self.table.shape[1], 1)
        self.trailing = trailing

    def forward(self, **given: Any) -> Tensor:
        values: Tensor = self.head(super().forward(**given))
        return values if self.trailing else values[..., 0]


@given(with_prompts, st.sampled_from([*LAYOUTS]), st.booleans())
def test_the_value_of_a_token_is_that_before_it_in_every_layout(sizes, layout, trailing):
    critic, batch = Critic(trailing=trailing), small(*sizes)
    rows = to_layout(batch, layout, pad_token_id=PAD)
    found = token_values(critic, rows)
    expected: list[float] = []
    for row in range(len(batch)):
        prompt, response = batch.prompt_ids[row][batch.prompt_mask[row]], batch.response_ids[row]
        ids = torch.cat([prompt, response[batch.response_mask[row]]])[None]
        places = torch.arange(ids.shape[1])[None]
        values = critic(input_ids=ids, attention_mask=None, position_ids=places, use_cache=False).flatten()
        expected += values[len(prompt) - 1 : -1].tolist()
    mask = rows.tokens.values.response_mask if layout == "ragged" else rows.response_mask
    assert found.shape == mask.shape
    assert found[mask].tolist() == pytest.approx(expected, abs=1e-5)
    assert (found[~mask] == 0).all()


def test_gradients_flow_to_the_critic_in_float32():
    critic = Critic().to(torch.bfloat16)
    found = token_values(critic, small([2, 1], [3, 1]))
    found.sum().backward()
    assert found.dtype == torch.float32
    assert critic.head.weight.grad is not None


def test_a_critic_returns_one_number_for_each_token():
    batch = small([2, 1], [3, 1])
    with pytest.raises(StructureError, match=r"a number for each token, \[2, 5\] or \[2, 5, 1\], got \[2, 5, 100\]"):
        token_values(Causal(), batch)
    with pytest.raises(StructureError, match="got tuple"):
        token_values(lambda **given: (given["input_ids"],), batch)


def by_hand(
    rewards: list[float], values: list[float], counts: list[bool], turns: list[int], gamma: float, lam: float
) -> tuple[list[float], list[float]]:
    """Advantages and targets of one row, action by action."""
    actions: list[list[int]] = []
    for t in [t for t, count in enumerate(counts) if count]:
        if actions and turns[actions[-1][0]] == turns[t]:
            actions[-1].append(t)
        else:
            actions.append([t])
    adv, returns, after, last = [0.0] * len(counts), [0.0] * len(counts), 0.0, 0.0
    for tokens in reversed(actions):
        value = values[tokens[0]]
        last = sum(rewards[t] for t in tokens) + gamma * after - value + gamma * lam * last
        after = value
        for t in tokens:
            adv[t], returns[t] = last, last + value
    return adv, returns


@st.composite
def token_rows(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    torch.manual_seed(draw(st.integers(0, 10**6)))
    mask = torch.rand(rows, width) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    turns = (torch.rand(rows, width) < 0.4).long().cumsum(1)
    return torch.randn(rows, width) * mask, torch.randn(rows, width), mask, turns


@given(token_rows(), st.sampled_from([1.0, 0.9, 0.0]), st.sampled_from([1.0, 0.95, 0.0]), st.booleans())
def test_advantages_are_those_of_a_loop_padded_and_end_to_end(given_rows, gamma, lam, by_turn):
    rewards, values, mask, turns = given_rows
    options: dict[str, Any] = {"gamma": gamma, "lam": lam}
    adv, returns = token_gae(rewards, values, mask, turns=turns if by_turn else None, **options)
    numbers = turns if by_turn else torch.arange(mask.shape[1]).expand(mask.shape)
    for row in range(len(mask)):
        given_row = (tensor[row].tolist() for tensor in (rewards, values, mask, numbers))
        expected = by_hand(*given_row, gamma, lam)
        assert adv[row].tolist() == pytest.approx(expected[0], abs=1e-5)
        assert returns[row].tolist() == pytest.approx(expected[1], abs=1e-5)
    flat = (rewards.flatten(), values.flatten(), mask.flatten())
    lengths = [mask.shape[1]] * len(mask)
    of_flat = token_gae(*flat, turns=turns.flatten() if by_turn else None, lengths=lengths, **options)
    assert torch.equal(torch.cat(of_flat), torch.cat([adv.flatten(), returns.flatten()]))
    if not by_turn:
        assert torch.allclose(adv, reference(rewards, values, mask, gamma, lam), atol=1e-5)


@given(token_rows())
def test_a_reward_of_a_sample_is_that_of_its_last_token_that_counts(given_rows):
    _, values, mask, _ = given_rows
    totals = torch.randn(len(mask)) * mask.any(1)
    placed = torch.zeros_like(values)
    for row in range(len(mask)):
        if mask[row].any():
            placed[row, mask[row].nonzero()[-1]] = totals[row]
    expected = torch.cat(token_gae(placed, values, mask, gamma=0.9, lam=0.8))
    assert torch.equal(torch.cat(token_gae(totals, values, mask, gamma=0.9, lam=0.8)), expected)
    flat = token_gae(totals, values.flatten(), mask.flatten(), gamma=0.9, lam=0.8, lengths=[mask.shape[1]] * len(mask))
    assert torch.equal(torch.cat(flat), expected.flatten())


def test_long_sequences_no_gradient_and_the_dtype_of_the_values():
    values = torch.randn(2, 3000, dtype=torch.float64, requires_grad=True)
    rewards, mask = torch.randn(2, 3000), torch.rand(2, 3000) < 0.7
    adv, returns = token_gae(rewards * mask, values, mask, gamma=0.999, lam=0.97)
    assert torch.allclose(adv, reference((rewards * mask).double(), values.detach(), mask, 0.999, 0.97))
    assert (adv.dtype, returns.requires_grad) == (torch.float64, False)
    assert token_gae(rewards * mask, values.detach().bfloat16(), mask)[0].dtype == torch.bfloat16


def test_nothing_counts_and_nothing_is_there():
    nothing = torch.zeros(2, 0)
    assert token_gae(nothing, nothing, nothing.bool())[0].shape == (2, 0)
    zeros = torch.zeros(2, 3)
    assert not torch.cat(token_gae(torch.zeros(2), torch.ones(2, 3), zeros.bool())).any()
    assert token_gae(zeros[0, :0], zeros[0, :0], zeros[0, :0].bool(), lengths=[0, 0])[0].shape == (0,)


REWARDS, VALUES, MASK = torch.tensor([[0.0, 1, 0], [0, 0, 2]]), torch.ones(2, 3), torch.ones(2, 3).bool()
MASK[0, 2] = False
REFUSED: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("a discount above 1", {"gamma": 1.1}, SettingError, "gamma= is a number from 0 to 1, got 1.1"),
    ("a weight that is not a number", {"lam": float("nan")}, SettingError, "lam= is a number from 0 to 1"),
    ("rewards in a list", {"rewards": [1.0, 2.0]}, LeafError, "'rewards': token_gae.. takes tensors, got list"),
    ("a mask in a list", {"mask": [[True]]}, LeafError, "'mask': a mask must be a tensor"),
    (
        "values of another width",
        {"values": VALUES[:, :2]},
        StructureError,
        r"'values': values are \[2, 2\], but the mask",
    ),
    (
        "rewards of another width",
        {"rewards": REWARDS[:, :2]},
        StructureError,
        r"one for each token, \[2, 3\], or for each",
    ),
    (
        "a reward that is lost",
        {"rewards": VALUES},
        StructureError,
        r"the reward at \[0, 2\] is at a token that does not",
    ),
    (
        "a sample without a token",
        {"mask": MASK & False, "rewards": torch.ones(2)},
        StructureError,
        "sample 0 has a rew",
    ),
    (
        "a reward that is not a number",
        {"rewards": torch.tensor([torch.nan, 0])},
        StructureError,
        "'rewards': it is nan at token",
    ),
    ("a value that is infinite", {"values": VALUES / 0}, StructureError, "'values': it is inf at token 0 of those"),
    (
        "turns of another width",
        {"turns": torch.ones(2).long()},
        StructureError,
        r"'turns': it must be \[2, 3\], as the mask",
    ),
    ("turns that are fractions", {"turns": VALUES}, LeafError, "'turns': it must be whole numbers, got torch f32"),
    ("values that are whole numbers", {"values": VALUES.long()}, LeafError, "'values': values must be floating"),
    ("lengths of padded tokens", {"lengths": [3, 3]}, SettingError, "lengths= is for tokens end to end"),
    (
        "turns that mix",
        {"turns": torch.tensor([[1, 1, 1], [1, 2, 1]])},
        StructureError,
        "turn 1 of sample 1 is interrup",
    ),
]


@pytest.mark.parametrize(("changes", "error", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_has_no_advantage_is_refused(changes, error, text):
    arguments: dict[str, Any] = {"rewards": REWARDS, "values": VALUES, "mask": MASK, **changes}
    with pytest.raises(error, match=text):
        token_gae(**arguments)


def test_tokens_end_to_end_need_their_lengths():
    flat = (REWARDS.flatten(), VALUES.flatten(), MASK.flatten())
    with pytest.raises(SettingError, match="tokens end to end need lengths="):
        token_gae(*flat)
    with pytest.raises(StructureError, match="lengths sum up to 5, but there are 6 tokens"):
        token_gae(*flat, lengths=[2, 3])


def test_a_packed_batch_has_what_a_critics_loss_reads():
    batch = example(HasValues)
    assert conforms(to_layout(batch, "packed"), PackedValueProtocol)
    del batch["returns"]
    assert not conforms(to_layout(batch, "packed"), PackedValueProtocol)


def test_audits_accuse_none_of_the_functions_and_find_what_is_shifted_or_taken_at_tools():
    batch = small([2, 1, 3], [4, 3, 5])
    assert not audit_values(token_values, Critic(), batch).findings
    assert not audit_logp(token_logp, Causal(), batch, vocabulary=WORDS).findings
    shifted = audit_values(lambda critic, rows: token_values(critic, rows).roll(-1, 1), Critic(), batch)
    assert "depends on the token itself; take the output at the one before it" in str(shifted)
    torch.manual_seed(0)
    given_rows = {"rewards": torch.randn(4, 9), "values": torch.randn(4, 9), "mask": torch.rand(4, 9) < 0.8}
    settings = {"gamma": 0.9, "lam": 0.8}

    def stage(rewards: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        return token_gae(rewards * mask, values, mask, **settings)[0]

    def at_tools(rewards: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        return token_gae(rewards * mask, values, torch.ones_like(mask), **settings)[0] * mask

    assert str(audit_stage(stage, given_rows, like="token_gae", settings=settings)) == "no findings"
    assert "this is not token_gae" in str(audit_stage(at_tools, given_rows, like="token_gae", settings=settings))
