"""Results of a pipeline's stages match the declarations that the next stages read."""

from __future__ import annotations

import ast
import doctest
from pathlib import Path

import pytest
import torch

from typedbatch import Batch, conforms, errors, extend, objects, posttraining, validate
from typedbatch.naming import rename
from typedbatch.posttraining import (
    HasRefLogp,
    HasRolloutLogp,
    HasValues,
    PackedLossProtocol,
    PairLossProtocol,
    Pairs,
    PolicyLossProtocol,
    Prompts,
    Ready,
    ReferenceProtocol,
    RewardProtocol,
    Rollouts,
    Scored,
    SequenceProtocol,
    ValueLossProtocol,
    to_layout,
)
from typedbatch.records import BatchRecord
from typedbatch.testing import example

RECORDS = [getattr(posttraining, name) for name in posttraining.__all__]
RECORDS = [cls for cls in RECORDS if isinstance(cls, type) and issubclass(cls, BatchRecord)]
READ_BY = {SequenceProtocol: Rollouts, RewardProtocol: Scored, PolicyLossProtocol: Ready}


@pytest.mark.parametrize("record", RECORDS)
def test_examples_are_what_is_declared(record):
    assert validate(example(record), record)


@pytest.mark.parametrize("protocol", READ_BY)
def test_stages_read_what_the_stage_before_makes(protocol):
    batch = example(READ_BY[protocol])
    assert conforms(batch, protocol)
    assert not conforms(example(Prompts), protocol)


def test_optional_stages_are_asked_for():
    ready = example(Ready)
    ready.ref_logp = ready.values = ready.returns = None
    assert not conforms(ready, ReferenceProtocol)
    assert not conforms(ready, ValueLossProtocol)
    ready.ref_logp = ready.values = ready.returns = ready.advantages
    assert conforms(ready, ReferenceProtocol)
    assert conforms(ready, ValueLossProtocol)


def test_stage_by_stage():
    prompts = Prompts(
        prompt_ids=torch.ones(2, 3, dtype=torch.int64),
        prompt_mask=torch.ones(2, 3, dtype=torch.bool),
        uid=objects(["a", "b"]),
    )
    mask = torch.tensor([[True, True], [True, False]])
    ids = mask.long()
    rollouts = extend(prompts, Rollouts, response_ids=ids, response_mask=mask, loss_mask=mask)
    scored = extend(rollouts, Scored, rewards=torch.tensor([1.0, 0.0]))
    ready = extend(scored, Ready, old_logp=torch.zeros(2, 2), advantages=torch.zeros(2, 2))
    assert validate(ready, Ready) is ready
    with pytest.raises(errors.SchemaError, match=r"batch.advantages +shape \(2,\), expected shape \(N, R\)"):
        extend(scored, Ready, old_logp=torch.zeros(2, 2), advantages=torch.zeros(2))


def test_each_side_of_a_pair_is_padded_by_itself():
    pairs = example(Pairs)
    longer = torch.ones(len(pairs), 9, dtype=torch.int64)
    pairs.chosen_ids, pairs.chosen_mask = longer, longer.bool()
    assert validate(pairs, Pairs)
    pairs.rejected_mask = longer.bool()
    with pytest.raises(errors.SchemaError, match="rejected"):
        validate(pairs, Pairs)


PROJECTS = ["verl", "trl", "openrlhf", "nemo_rl", "skyrl", "prime_rl", "slime", "areal"]


@pytest.mark.parametrize("project", PROJECTS)
def test_names_there_and_back(project):
    ready = example(Ready)
    fields = Batch({name: ready[name] for name in ("loss_mask", "advantages", "old_logp", "rollout_logp")})
    there = rename(fields, to=project)
    assert there.keys() != fields.keys()
    assert rename(there, to="typedbatch", source=project) == fields
    assert rename(there, to=project, source=project) == there


def test_from_one_project_to_another():
    verl = Batch(responses=[[1]], response_mask=[[1]], old_log_probs=[[0.5]], extra=[1])
    assert [*rename(verl, to="skyrl", source="verl").keys()] == ["responses", "loss_mask", "action_log_probs", "extra"]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"to": "verl"},
            errors.FieldNameError,
            "verl has no such field, and uses the name 'response_mask' for 'loss_mask'",
        ),
        (
            {"to": "typedbatch"},
            errors.SettingError,
            "source= must name the project whose names the batch has: verl, trl",
        ),
        ({"to": "vrl"}, errors.SettingError, "did you mean 'verl'"),
        ({"to": "trl", "source": "verll"}, errors.SettingError, "got 'verll'; did you mean 'verl'"),
        ({"to": "rllib", "source": "verl"}, errors.SettingError, "source= is for names of post-training"),
    ],
)
def test_names_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        rename(Batch(response_mask=[[1]]), **arguments)


def test_what_is_optional_can_be_required():
    ready = example(Ready)
    ready.rollout_logp = ready.ref_logp = None

    class Both(HasRefLogp, HasRolloutLogp):
        pass

    with pytest.raises(errors.SchemaError, match=r"(?s)batch is not a Both \(2 problems\).*rollout_logp.*ref_logp"):
        extend(ready, Both)
    both = extend(ready, Both, rollout_logp=ready.old_logp, ref_logp=ready.old_logp)
    assert isinstance(both, Ready)
    assert conforms(both, ReferenceProtocol)
    with pytest.raises(errors.SchemaError, match=r"HasValues \(2 problems\)"):
        extend(Batch(ready, values=None, returns=None), HasValues)


def test_losses_of_other_layouts_say_what_they_read():
    ready = example(Ready)
    assert conforms(to_layout(ready, "packed"), PackedLossProtocol)
    assert not conforms(to_layout(Batch(example(Rollouts)), "packed"), PackedLossProtocol)
    pairs = example(Pairs)
    pairs.ref_chosen_logp = None
    assert not conforms(pairs, PairLossProtocol)


def test_every_public_name_is_used_by_an_example_or_a_page():
    docs = Path(__file__).parents[2] / "docs"
    sources = [path.read_text(encoding="utf-8") for path in docs.glob("examples/**/*.py")]
    for page in docs.rglob("*.md"):
        examples = doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8"))
        sources.append("\n".join(example.source for example in examples))
    used = set[str]()
    for source in sources:  # an import alone uses nothing
        used |= {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert {*posttraining.__all__} <= used
