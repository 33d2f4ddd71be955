"""Stages of post-training: each law, kept and broken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.audit.programs import Speaker
from typedbatch import Batch, BatchRecord, objects
from typedbatch.audit import audit_logp, audit_pairs, audit_reward, audit_stage, audit_values
from typedbatch.errors import MissingFieldError, SettingError


def texts(report: Any) -> str:
    return " / ".join(finding.text for finding in report.findings)


def test_right_log_probabilities_keep_all_laws():
    speaker = Speaker()
    report = audit_logp(speaker.logp, speaker.model, speaker.batch())
    assert (report.findings, report.notes) == ([], [])


def test_an_embedding_that_is_normalized_still_has_an_effect():
    """A LayerNorm removes what is added to all dimensions alike."""
    speaker = Speaker()
    speaker.model.insert(1, nn.LayerNorm(8))
    with torch.no_grad():  # so that what rounding leaves is not enough
        speaker.model[1].eps = 1e-3
    report = audit_logp(speaker.logp, speaker.model, speaker.batch())
    assert (report.findings, report.notes) == ([], [])


def test_a_token_is_not_compared_with_its_own_logits():
    def logp(model: nn.Module, batch: Any) -> Tensor:
        return model(batch.response_ids).log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0]

    speaker = Speaker()
    assert "depends on the logits at that token" in texts(audit_logp(logp, speaker.model, speaker.batch()))


def test_tokens_of_a_prompt_may_be_those_of_the_response():
    """The embedding that is changed is that of the response's token, not of equal ones before it."""
    speaker = Speaker()
    batch = speaker.batch()
    batch.response_ids[0] = 3

    def logp(model: nn.Module, batch: Any) -> Tensor:
        prompt = torch.full((len(batch.response_ids), 1), 3)
        logits = model(torch.cat([prompt, batch.response_ids], 1))[:, :-1]
        return logits.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0]

    report = audit_logp(logp, speaker.model, batch)
    assert (report.findings, report.notes) == ([], [])


def test_own_logits_are_found_though_probabilities_sum_to_1():
    speaker = Speaker()
    with torch.no_grad():  # so that all tokens are about as likely
        for parameter in speaker.model[1].parameters():
            parameter *= 0.01

    def logp(model: nn.Module, batch: Any) -> Tensor:
        logits = model(batch.response_ids).log_softmax(-1)
        return logits.gather(-1, batch.response_ids[..., None])[..., 0]

    (finding,) = audit_logp(logp, speaker.model, speaker.batch()).findings
    assert finding.text == (
        "the log-probability of a token depends on the logits at that token; the logits for a token are those at the "
        "one before it"
    )


@pytest.mark.parametrize("change", [lambda logits: logits, lambda logits: logits.log_softmax(-1) / 0.7])
def test_probabilities_of_all_tokens_sum_to_1(change: Any):
    def logp(model: nn.Module, batch: Any) -> Tensor:
        first = torch.zeros(len(batch.response_ids), 1, dtype=torch.long)
        logits = model(torch.cat([first, batch.response_ids], 1))[:, :-1]
        return change(logits).gather(-1, batch.response_ids[..., None])[..., 0]

    speaker = Speaker()
    text = texts(audit_logp(logp, speaker.model, speaker.batch()))
    assert "do not sum to 1 (but to " in text
    assert "(but to 1)" not in text


class Positions(nn.Embedding):
    """Embeddings of positions, which are given a shape, as in Marian."""

    def forward(self, shape: torch.Size) -> Tensor:
        return super().forward(torch.arange(shape[1]).expand(shape))


def test_embeddings_are_called_in_any_way():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions, self.head = nn.Embedding(6, 8), Positions(7, 8), nn.Linear(8, 6)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.tokens(input=ids) + self.positions(ids.shape))

    speaker, model = Speaker(), Named()
    report = audit_logp(speaker.logp, model, speaker.batch())
    assert (report.findings, report.notes) == ([], [])


def test_later_tokens_have_no_effect():
    speaker = Speaker()

    def logp(model: nn.Module, batch: Any) -> Tensor:
        return speaker.logp(model, batch) - 0.01 * batch.response_ids.sum(1, keepdim=True)

    assert "depends on the tokens after it" in texts(audit_logp(logp, speaker.model, speaker.batch()))


def test_other_rows_have_no_effect():
    speaker = Speaker()

    def logp(model: nn.Module, batch: Any) -> Tensor:
        return speaker.logp(model, batch) - 0.01 * batch.response_ids.float().mean(0)[None]

    assert "depend on the tokens of another row" in texts(audit_logp(logp, speaker.model, speaker.batch()))


def test_padding_has_no_effect():
    speaker = Speaker()

    def logp(model: nn.Module, batch: Any) -> Tensor:
        padding = (batch.response_ids * ~batch.response_mask).sum(1, keepdim=True)
        return speaker.logp(model, batch) - 0.01 * padding

    assert "depend on the tokens of padding" in texts(audit_logp(logp, speaker.model, speaker.batch()))


def test_shape_and_dtype_are_looked_at():
    speaker = Speaker()
    short = audit_logp(lambda m, b: speaker.logp(m, b)[:, 1:], speaker.model, speaker.batch())
    assert "expected one for each token, [8, 6]" in texts(short)
    coarse = audit_logp(lambda m, b: speaker.logp(m, b).bfloat16(), speaker.model, speaker.batch())
    assert "compute them in float32" in texts(coarse)


def test_the_model_is_as_before():
    speaker = Speaker()
    speaker.model.train()
    before = [parameter.clone() for parameter in speaker.model.parameters()]
    audit_logp(speaker.logp, speaker.model, speaker.batch())
    assert speaker.model.training
    assert all(torch.equal(*pair) for pair in zip(before, speaker.model.parameters(), strict=True))
    assert all(not module._forward_hooks for module in speaker.model.modules())  # noqa: SLF001  # torch has no public name


def test_tokens_that_are_never_sampled_have_no_logits():
    speaker = Speaker()
    speaker.model[0] = nn.Embedding(9, 8)  # three more tokens, as for padding
    batch = speaker.batch()
    batch.response_ids[~batch.response_mask] = 8

    def logp(model: nn.Module, batch: Any) -> Tensor:
        first = torch.zeros(len(batch.response_ids), 1, dtype=torch.long)
        logits = model(torch.cat([first, batch.response_ids], 1))[:, :-1].log_softmax(-1)
        ids = batch.response_ids.where(batch.response_mask, 0)
        return logits.gather(-1, ids[..., None])[..., 0] * batch.response_mask

    assert audit_logp(logp, speaker.model, batch).findings == []


def test_the_vocabulary_has_to_be_known():
    speaker = Speaker()

    def logp(model: nn.Module, batch: Any) -> Tensor:
        weight = speaker.model[0].weight
        first = torch.zeros(len(batch.response_ids), 1, dtype=torch.long)
        out = speaker.model[1](weight[torch.cat([first, batch.response_ids], 1)])[:, :-1]
        return (out - out.exp().sum(-1, keepdim=True).log()).gather(-1, batch.response_ids[..., None])[..., 0]

    with pytest.raises(SettingError, match="pass vocabulary"):
        audit_logp(logp, speaker.model, speaker.batch())
    assert audit_logp(logp, speaker.model, speaker.batch(), vocabulary=6).findings == []


def test_fields_and_tokens_have_to_be_there():
    speaker = Speaker()
    with pytest.raises(MissingFieldError, match="response_mask"):
        audit_logp(speaker.logp, speaker.model, Batch(response_ids=torch.zeros(2, 2)))
    batch = speaker.batch()
    batch.response_mask = batch.response_mask & (torch.arange(6) < 1)
    with pytest.raises(SettingError, match="no response has two tokens"):
        audit_logp(speaker.logp, speaker.model, batch)


def values(model: nn.Module, batch: Any) -> Tensor:
    """Return a value before each token, from the tokens before it."""
    first = torch.zeros(len(batch.response_ids), 1, dtype=torch.long)
    hidden = model[0](torch.cat([first, batch.response_ids], 1)).cumsum(1)[:, :-1]
    return hidden.sum(-1)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (values, ""),
        (lambda model, batch: model[0](batch.response_ids).cumsum(1).sum(-1), "depends on the token itself; take the"),
        (
            lambda model, batch: values(model, batch) + batch.response_ids.sum(1, keepdim=True),
            "depends on tokens after",
        ),
        (
            lambda model, batch: values(model, batch) + batch.response_ids.float().mean(0),
            "of another row; are sequences",
        ),
        (lambda model, batch: values(model, batch)[:, 0], r"the values are torch f32[8], expected one for each token"),
    ],
)
def test_a_value_is_that_before_its_token(function: Any, says: str):
    speaker = Speaker()
    report = audit_values(function, speaker.model, speaker.batch())
    assert says in texts(report)
    assert bool(report.findings) == bool(says)
    assert says or report.notes == []


def test_values_need_three_tokens_and_may_not_see_any():
    speaker = Speaker()
    (note,) = audit_values(lambda model, batch: torch.zeros(8, 6), speaker.model, speaker.batch()).notes
    assert note.text == "no value depends on the tokens before it"
    with pytest.raises(SettingError, match="no response has three tokens"):
        audit_values(values, speaker.model, speaker.batch()[[4, 4]])


def test_a_reward_of_the_policys_tokens_keeps_all_laws():
    batch = Speaker().batch()
    report = audit_reward(lambda b: ((b.response_ids == 3) & b.loss_mask).sum(1).float(), batch)
    assert report.findings == []


def test_a_reward_does_not_read_what_a_tool_wrote():
    batch = Speaker().batch()
    report = audit_reward(lambda b: Batch(rewards=(b.response_ids == 5).sum(1).float()), batch)
    assert "the tokens of tools, outside loss_mask, have an effect on rewards" in texts(report)


def test_rewards_go_with_their_rows():
    batch = Speaker().batch()
    answers = torch.randint(1, 6, (8,))
    report = audit_reward(lambda b: ((b.response_ids == answers[:, None]) & b.loss_mask).sum(1).float(), batch)
    assert "do not go with their rows" in texts(report)


class Prompts(BatchRecord):
    prompt_ids: Tensor
    prompt_mask: Tensor
    uid: object


def prompts() -> Prompts:
    ids = torch.arange(12).view(4, 3)
    return Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=objects(["a", "b", "c", "d"]))


def test_what_a_prompt_carries_stays_with_it():
    rows = [0, 0, 1, 1, 2, 2, 3, 3]
    assert audit_stage(lambda batch: batch[rows], prompts()).findings == []


def test_a_stage_that_mixes_rows_up():
    def tiled(batch: Any) -> Prompts:
        rows = [0, 0, 1, 1, 2, 2, 3, 3]
        return Prompts(
            prompt_ids=batch.prompt_ids.repeat(2, 1), prompt_mask=batch.prompt_mask[rows], uid=batch.uid[rows]
        )

    assert "prompt_ids of row 1 is not that of uid 'a'" in texts(audit_stage(tiled, prompts()))


def test_a_stage_that_invents_or_forgets_identifiers():
    def other(batch: Any) -> Prompts:
        return Prompts(prompt_ids=batch.prompt_ids, prompt_mask=batch.prompt_mask, uid=objects(["a", "b", "c", "x"]))

    assert "uid 'x' of the result is not in what was given" in texts(audit_stage(other, prompts()))
    report = audit_stage(lambda batch: batch[[0, 0, 1, 2]], prompts())
    assert report.findings == []
    assert "uid 'd' has fewer rows than others" in report.notes[0].text
    with pytest.raises(MissingFieldError, match="key"):
        audit_stage(lambda batch: batch, prompts(), by="key")


class Scored(Prompts):
    response_ids: Tensor
    response_mask: Tensor
    rewards: Tensor


class Pairs(Prompts):
    chosen_ids: Tensor
    chosen_mask: Tensor
    rejected_ids: Tensor
    rejected_mask: Tensor


def scored() -> Scored:
    given = prompts()[[0, 0, 1, 1, 2, 2, 3, 3]]
    ids = torch.arange(16).view(8, 2)
    return Scored(**given.to_dict(), response_ids=ids, response_mask=ids >= 0, rewards=torch.tensor([0.0, 1.0] * 4))


def pairs_of(better: list[int], worse: list[int]) -> Any:
    def make(batch: Any) -> Pairs:
        firsts = batch[[0, 2, 4, 6]]
        return Pairs(
            prompt_ids=firsts.prompt_ids, prompt_mask=firsts.prompt_mask, uid=firsts.uid,
            chosen_ids=batch.response_ids[better], chosen_mask=batch.response_mask[better],
            rejected_ids=batch.response_ids[worse], rejected_mask=batch.response_mask[worse],
        )  # fmt: skip

    return make


def test_pairs_are_of_one_prompt_and_in_order():
    assert audit_pairs(pairs_of([1, 3, 5, 7], [0, 2, 4, 6]), scored()).findings == []


def test_pairs_across_prompts_and_pairs_that_are_exchanged():
    across = audit_pairs(pairs_of([1, 1, 5, 7], [0, 2, 4, 6]), scored())
    assert "chosen of pair 1 is not a response to its prompt" in texts(across)
    exchanged = audit_pairs(pairs_of([0, 3, 5, 7], [1, 2, 4, 6]), scored())
    assert "chosen of pair 0 has reward 0, and rejected has 1" in texts(exchanged)


def test_references_of_pairs_are_of_their_own_tokens():
    class Referred(Pairs):
        ref_chosen_logp: Tensor
        ref_rejected_logp: Tensor

    def reference(pairs: Any) -> tuple[Tensor, Tensor]:
        return pairs.chosen_ids.sum(1) * -0.1, pairs.rejected_ids.sum(1) * -0.1

    def audited(change: Any) -> str:
        def make(batch: Any) -> Referred:
            pairs = pairs_of([1, 3, 5, 7], [0, 2, 4, 6])(batch)
            chosen, rejected = change(*reference(pairs))
            return Referred(**pairs.to_dict(), ref_chosen_logp=chosen, ref_rejected_logp=rejected)

        return texts(audit_pairs(make, scored(), reference=reference))

    assert audited(lambda chosen, rejected: (chosen, rejected)) == ""
    assert audited(lambda chosen, rejected: (rejected, chosen)).endswith("is that of the other side")
    assert audited(lambda chosen, rejected: (chosen.roll(1), rejected)) == (
        "ref_chosen_logp of pair 0 is not that of its tokens by the reference model"
    )
