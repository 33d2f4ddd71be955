"""What a batch looks like in a console, a notebook and under rich."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from typedbatch import Batch, RolloutBatch
from typedbatch.display import summary


class Tags(HTMLParser):
    """Collects text, and fails on tags that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(batch: Batch) -> Tags:
    tags = Tags()
    tags.feed(batch._repr_html_())
    assert tags.open == []
    return tags


def test_repr_reads_like_source_and_indents_nested_batches():
    batch = Batch(obs={"cam": np.zeros((2, 2)), "pos": 1}, c="hello", empty=Batch(), nothing=None)
    assert repr(batch) == (
        "Batch(\n"
        "    obs: Batch(\n"
        "             cam: array([[0., 0.],\n"
        "                         [0., 0.]]),\n"
        "             pos: array(1),\n"
        "         ),\n"
        "    c: 'hello',\n"
        "    empty: Batch(),\n"
        "    nothing: None,\n"
        ")"
    )


def test_repr_names_the_record_and_prints_rows_as_plain_numbers():
    row = RolloutBatch(
        obs=np.zeros((2, 1)), obs_next=np.zeros((2, 1)), act=[1, 2], rew=[0.5, 1.0],
        terminated=[True, False], truncated=[False, False], info=Batch(),
    )[0]  # fmt: skip
    text = repr(row)
    assert text.startswith("RolloutBatch(\n")
    assert "    rew: 0.5,\n" in text
    assert "    act: 1,\n" in text
    assert "    terminated: True,\n" in text


def test_repr_quotes_names_that_are_no_identifiers():
    assert repr(Batch({"a.b": 1, "": 2})) == "Batch(\n    'a.b': array(1),\n    '': array(2),\n)"


def test_repr_of_a_batch_that_holds_itself_ends():
    batch = Batch(a=1)
    batch["me"] = batch
    assert repr(batch) == "Batch(\n    a: array(1),\n    me: Batch(...),\n)"
    assert "the batch itself" in "".join(read(batch).text)


def test_repr_does_not_depend_on_the_hash_seed():
    code = "from typedbatch import Batch; print(Batch(s={'b', 'a', 'c'}, t=frozenset('xyz'), o=[{'q', 'r'}, None]))"
    texts = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                       env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(texts) == 1


def test_html_is_a_collapsible_tree_with_shapes_dtypes_and_sizes():
    batch = Batch(
        obs={"cam": np.zeros((4, 3, 2), np.uint8)}, act=torch.zeros(4), info=Batch(), dist=Categorical(torch.ones(4, 2))
    )
    tags = read(batch)
    text = " | ".join(tags.text)
    assert tags.seen.count("details") == 2
    for shown in (
        "(4, 3, 2)",
        "uint8",
        "numpy",
        "24 B",
        "(4,)",
        "float32",
        "torch",
        "16 B",
        "Categorical[4]",
        "reserved",
    ):
        assert shown in text
    assert "4 fields, 40 B" in text


def test_html_escapes_names_and_shows_no_values():
    batch = Batch({"<script>alert(1)</script>": np.array([12345]), "note": "<b>secret</b>"})
    html = batch._repr_html_()
    assert "<script>" not in html
    assert "secret" not in html
    assert "12345" not in html


def test_rich_prints_the_fields():
    import rich.pretty

    assert rich.pretty.pretty_repr(Batch(a=[1, 2], n=Batch(b="x"))) == "Batch(a=array([1, 2]), n=Batch(b='x'))"


def test_summary_is_one_line_without_values():
    batch = Batch(act=np.zeros(256, int), obs={"cam": torch.zeros(256, 4)}, info=np.array([None] * 256))
    assert summary(batch) == "Batch[N=256]  act i64[256]  obs.cam torch f32[256,4]  info obj[256]"
    many = Batch({f"f{i}": np.zeros(i) for i in range(20)})
    assert summary(many).endswith("f11 f64[11]  and 8 more")


def test_the_repl_offers_the_fields():
    batch = Batch({"obs": 1, "a.b": 2})
    assert batch._ipython_key_completions_() == ["obs", "a.b"]
    assert "obs" in dir(batch)


def test_a_list_that_holds_itself_is_shown_as_python_shows_it():
    loop = [1]
    loop.append(loop)
    array = np.empty(1, dtype=object)
    array[0] = loop
    assert repr(Batch(a=array)) == "Batch(\n    a: array([[1, [...]]], dtype=object),\n)"


def test_an_error_names_some_of_very_many_fields():
    batch = Batch({f"field{i}": i for i in range(20_000)})
    with pytest.raises(AttributeError) as caught:
        _ = batch.field20000
    text = str(caught.value)
    assert len(text) < 1000
    assert "field39, ...; did you mean 'field2000'" in text
