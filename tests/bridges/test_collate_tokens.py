"""Rows with lists of tokens become one batch: padded or ragged, in a DataLoader and its workers."""

from __future__ import annotations

import pickle
from typing import Any, TypedDict

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch.utils.data import DataLoader

from typedbatch import Batch
from typedbatch.bridges.collate_tokens import CollateTokens
from typedbatch.errors import (
    FieldNameError,
    LeafError,
    MissingFieldError,
    SchemaError,
    SettingError,
    SizeError,
    StructureError,
)
from typedbatch.posttraining import RaggedRollouts, Rollouts

ROWS = [
    {"prompt_ids": [5, 6], "response_ids": [7], "loss_mask": [1], "uid": "a", "reward": 0.5, "turns": [1]},
    {"prompt_ids": [5], "response_ids": [8, 9], "loss_mask": [1, 0], "uid": "b", "reward": 1, "turns": [1, 2]},
    {"prompt_ids": [4], "response_ids": [], "loss_mask": [], "uid": "b", "reward": 0, "turns": []},
]
SIDES: Any = {"left": ["prompt_ids"], "right": ["response_ids", "loss_mask"]}


def test_padded_to_a_record():
    batch = CollateTokens(Rollouts, **SIDES, pad_token_id=99)(ROWS)
    assert type(batch) is Rollouts
    assert batch.prompt_ids.tolist() == [[5, 6], [99, 5], [99, 4]]
    assert batch.prompt_mask.tolist() == [[True, True], [False, True], [False, True]]
    assert batch.response_ids.tolist() == [[7, 99], [8, 9], [99, 99]]
    assert batch.response_mask.tolist() == [[True, False], [True, True], [False, False]]
    assert batch.loss_mask.tolist() == [[True, False], [True, False], [False, False]]
    assert batch.uid.tolist() == ["a", "b", "b"]
    assert batch["reward"].dtype == torch.float32
    assert batch["turns"].tolist() == [[1], [1, 2], []]
    assert batch.rollout_logp is None


def test_a_list_of_numbers_is_a_tensor_where_one_is_declared():
    class Scored(Rollouts):
        scores: Float[torch.Tensor, "N 2"]

    rows = [{**row, "scores": [0.5, 1.0]} for row in ROWS]
    batch = CollateTokens(Scored, **SIDES, pad_token_id=0)(rows)
    assert batch.scores.tolist() == [[0.5, 1.0]] * 3


def test_ragged_to_a_record():
    rows = [{"input_ids": [1, 2], "response_mask": [0, 1]}, {"input_ids": [3], "response_mask": [1]}]
    batch = CollateTokens(RaggedRollouts, ragged={"tokens": ["input_ids", "response_mask"]})(rows)
    assert type(batch) is RaggedRollouts
    assert batch.tokens.lengths.tolist() == [2, 1]
    assert batch.tokens.values.input_ids.tolist() == [1, 2, 3]
    assert batch.tokens.values.response_mask.tolist() == [False, True, True]


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_lists_arrays_and_tensors(make):
    rows = [{"input_ids": make([1, 2, 3]), "labels": make([1, 2, 3])}, {"input_ids": make([4]), "labels": make([4])}]
    collate = CollateTokens(
        Batch, right=["input_ids", "labels"], pad_token_id=0, padding={"labels": -100}, multiple_of=4
    )
    batch: Any = collate(rows)
    assert batch.input_ids.tolist() == [[1, 2, 3, 0], [4, 0, 0, 0]]
    assert batch.labels.tolist() == [[1, 2, 3, -100], [4, -100, -100, -100]]
    assert batch.attention_mask.tolist() == [[True, True, True, False], [True, False, False, False]]
    assert batch.labels.dtype == torch.int64


def test_a_mask_that_the_rows_have_stays():
    rows = [{"input_ids": [1, 2], "attention_mask": [1, 0]}]
    batch: Any = CollateTokens(Batch, right=["input_ids", "attention_mask"], pad_token_id=0)(rows)
    assert batch.attention_mask.tolist() == [[True, False]]


def test_without_any_token():
    batch: Any = CollateTokens(Batch, right=["input_ids"], pad_token_id=0)([{"input_ids": []}, {"input_ids": []}])
    assert batch.input_ids.shape == (2, 0)
    assert batch.input_ids.dtype == torch.int64


@pytest.mark.parametrize("workers", [0, 1])
def test_in_a_loader(workers):
    collate = CollateTokens(Rollouts, **SIDES, pad_token_id=99)
    batches = list(DataLoader(ROWS, batch_size=2, collate_fn=collate, num_workers=workers))
    assert [type(batch) for batch in batches] == [Rollouts, Rollouts]
    assert [batch.uid.tolist() for batch in batches] == [["a", "b"], ["b"]]
    assert pickle.loads(pickle.dumps(collate))(ROWS) == collate(ROWS)


class Sampling(TypedDict):
    temperature: float


class Sampled(Rollouts):
    meta: Sampling


def test_meta_comes_with_the_call():
    collate = CollateTokens(Sampled, **SIDES, pad_token_id=99)
    rows = [{name: value for name, value in row.items() if name != "turns"} for row in ROWS]
    assert collate(rows, meta={"temperature": 0.5}).meta == {"temperature": 0.5}
    with pytest.raises(SchemaError, match=r"meta\.temperature"):
        collate(rows, meta={})
    with pytest.raises(SchemaError, match="meta"):
        collate(rows)
    assert CollateTokens(Batch, right=["x"])([{"x": [1]}], meta={"step": 3}).meta == {"step": 3}


def test_what_the_record_does_not_declare():
    with pytest.raises(SchemaError, match="loss_mask"):
        CollateTokens(Rollouts, left=["prompt_ids"], right=["response_ids"], pad_token_id=0)(
            [{"prompt_ids": [1], "response_ids": [2], "uid": "a"}]
        )


def test_fields_that_may_be_none_have_the_declared_tokens_too():
    collate = CollateTokens(Rollouts, right=["response_ids", "loss_mask", "rollout_logp"], pad_token_id=0)
    row = {"uid": "p", "prompt_ids": [1], "response_ids": [1, 2], "loss_mask": [1, 1], "rollout_logp": [-0.5]}
    with pytest.raises(StructureError, match="row 0: rollout_logp has 1 tokens, but response_ids has 2 tokens"):
        collate([row])


def test_fields_of_the_same_tokens_have_as_many_in_each_row():
    rows = [*ROWS, {**ROWS[0], "response_ids": [1, 2, 3, 4], "loss_mask": [1, 1]}]
    with pytest.raises(StructureError, match="row 3: loss_mask has 2 tokens, but response_ids has 4 tokens"):
        CollateTokens(Rollouts, **SIDES, pad_token_id=99)(rows)
    with pytest.raises(StructureError, match="row 0: loss_mask has a number, but response_ids has 1 tokens"):
        CollateTokens(Rollouts, **SIDES, pad_token_id=99)([{**ROWS[0], "loss_mask": 1}])
    with pytest.raises(StructureError, match="row 3: loss_mask has 2 tokens, but response_ids has 4 tokens"):
        CollateTokens(Batch, **SIDES, pad_token_id=99)(rows)
    masked = CollateTokens(Batch, right=["input_ids", "attention_mask", "labels"], pad_token_id=0)
    with pytest.raises(StructureError, match="row 1: attention_mask has 2 tokens, but input_ids has 1 tokens"):
        masked(
            [
                {"input_ids": [1], "attention_mask": [1], "labels": []},
                {"input_ids": [1], "attention_mask": [1, 1]} | {"labels": [1]},
            ]
        )
    with pytest.raises(
        SettingError,
        match="'response_ids' and 'loss_mask' have the same tokens, so they must be padded on the same side",
    ):
        CollateTokens(Rollouts, left=["prompt_ids", "loss_mask"], right=["response_ids"], pad_token_id=0)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"left": ["prompt_ids"]}, SettingError, "'prompt_ids' is padded; pass pad_token_id="),
        ({"left": ["a"], "right": ["a"]}, SettingError, "'a' is named twice"),
        ({"left": ["a"], "ragged": {"t": ["a"]}}, SettingError, "'a' is named twice"),
        ({"padding": {"labels": 0}}, SettingError, "padding= names 'labels'"),
        ({"multiple_of": 0}, SizeError, "multiple_of"),
    ],
)
def test_settings(options, error, said):
    with pytest.raises(error, match=said):
        CollateTokens(Batch, **options)


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ([{"a": [1]}, {}], StructureError, "'a': row 1 lacks this key"),
        ([{"b": [1]}], MissingFieldError, "a"),
        ([{"a": ["text"]}], LeafError, "'a': tokens must be a list of numbers"),
        ([{"a": 3}], LeafError, "'a'"),
        ([[1]], LeafError, "dicts or Batches"),
        ([{"a": [1], "t": 1, "b": [1]}], FieldNameError, "'t'"),
        ([{"a": [1], "b": [1], "c_mask": [1, 1]}], StructureError, "t"),
        ([{"a": [1], "b": [1], "c_mask": [2]}], StructureError, "'t.c_mask'.*0 and 1"),
    ],
)
def test_rows_that_are_refused(rows, error, said):
    collate = CollateTokens(Batch, right=["a"], ragged={"t": ["b", "c_mask"]})
    with pytest.raises(error, match=said):
        collate(rows)
