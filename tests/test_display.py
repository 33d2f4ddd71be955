"""Display of a batch in a console, in a notebook and by rich."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from typedbatch import Batch, RolloutBatch, objects
from typedbatch._ops.display import summary


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


def test_html_escapes_names_and_values_and_shows_the_first_of_them():
    script = "<script>alert(1)</script>"
    batch = Batch({script: np.arange(10_000, 10_100), "note": "<b>secret</b>", "objects": [script, None]})
    html = batch._repr_html_()
    assert "<script>" not in html
    assert "secret" not in html
    assert "[10000, 10001, 10002, 10003, ...]" in html
    assert "10004" not in html
    assert "[&#x27;&lt;script&gt;alert(1)&lt;/sc..., None]" in html


def test_rich_prints_the_fields():
    import rich.pretty

    assert rich.pretty.pretty_repr(Batch(a=[1, 2], n=Batch(b="x"))) == "Batch(a=array([1, 2]), n=Batch(b='x'))"


def rollout(rows: int = 256) -> Batch:
    generator = np.random.default_rng(0)
    return Batch(
        obs=generator.normal(size=(rows, 4)).astype(np.float32),
        act=np.arange(rows),
        rew=np.linspace(0, 1, rows),
        terminated=np.arange(rows) % 10 == 9,
        truncated=np.zeros(rows, bool),
        obs_next={"cam": np.zeros((rows, 8, 8), np.uint8), "pos": torch.ones(rows, 3, dtype=torch.float64) / 3},
        info=[{"lives": i} for i in range(rows)],
    )


def test_a_rollout_fits_a_screen():
    lines = repr(Batch(rollout())).splitlines()
    assert len(lines) == 14
    assert max(map(len, lines)) < 120
    assert lines[1] == "    obs: array float32 (256, 4) [0.1257, -0.1321, 0.6404, 0.1049, ...],"
    assert lines[2] == "    act: array int64 (256,) [0, 1, 2, 3, ...],"
    assert lines[4] == "    terminated: array bool (256,) [False, False, False, False, ...],"
    assert lines[8] == "                  pos: tensor float64 (256, 3) [0.3333, 0.3333, 0.3333, 0.3333, ...],"


def test_dicts_in_a_long_array_stay_on_the_line():
    info = np.empty(100, object)
    info[:] = [{"a long name": "a\nb" * 50, "array": np.zeros((5, 5))}] * 100
    batch = Batch()
    batch.__dict__["info"] = info  # the constructor makes dicts a nested batch
    (_, line, _) = repr(batch).splitlines()
    assert line.startswith("    info: array object (100,) [{'a long name': 'a\\nb...,")
    assert len(line) < 160


def test_lists_in_an_array_are_no_dimension_of_it():
    four = ", ".join(["list(['a', ['b']])"] * 4)
    batch = Batch(ids=objects([[1, 2], [3, 4]]), turns=objects([["a", ["b"]]] * 41))
    assert repr(batch).splitlines()[1:3] == [
        "    ids: array([list([1, 2]), list([3, 4])], dtype=object),",
        f"    turns: array object (41,) [{four}, ...],",
    ]


@pytest.mark.parametrize("size", [40, 41])
def test_up_to_forty_elements_are_shown_as_they_are(size: int):
    small = np.zeros(size, np.int8)
    expected = repr(small) if size == 40 else "array int8 (41,) [0, 0, 0, 0, ...]"
    assert repr(Batch(x=small)) == f"Batch(\n    x: {expected},\n)".replace("\n       ", "\n              ")


@pytest.mark.parametrize(
    ("leaf", "line"),
    [
        (np.zeros((100, 0, 3)), "array([], shape=(100, 0, 3), dtype=float64)"),
        (np.full(50, 1 + 2j), "array complex128 (50,) [1+2j, 1+2j, 1+2j, 1+2j, ...]"),
        (np.full(50, np.nan, np.float16), "array float16 (50,) [nan, nan, nan, nan, ...]"),
        (np.array(["2024"] * 50, "M8[Y]"), "array datetime64[Y] (50,) [2024, 2024, 2024, 2024, ...]"),
        (np.ma.masked_array(np.arange(50), mask=np.arange(50) % 2), "array int64 (50,) [0, --, 2, --, ...]"),
        (np.zeros(50, [("a", "i4")]), "array [('a', '<i4')] (50,) [(0,), (0,), (0,), (0,), ...]"),
        (torch.zeros(50, device="meta"), "tensor float32 (50,) on meta"),
        (torch.eye(10).to_sparse(), "tensor float32 (10, 10) [1, 0, 0, 0, ...]"),
        (torch.ones(50, requires_grad=True), "tensor float32 (50,) [1, 1, 1, 1, ...]"),
        (np.broadcast_to(np.int8(7), (2**30, 2**20)), "array int8 (1073741824, 1048576) [7, 7, 7, 7, ...]"),
        (np.arange(64).reshape(8, 8).T, "array int64 (8, 8) [0, 8, 16, 24, ...]"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)  # fmt: skip
def test_long_arrays_of_every_sort(leaf: object, line: str):
    assert repr(Batch(x=leaf)).splitlines()[1] == f"    x: {line},"


def test_rich_cuts_long_arrays_too():
    import rich.pretty

    assert rich.pretty.pretty_repr(Batch(a=np.zeros(50), n=Batch(b="x"))) == (
        "Batch(a=array float64 (50,) [0, 0, 0, 0, ...], n=Batch(b='x'))"
    )


def test_summary_is_one_line_without_values():
    batch = Batch(act=np.zeros(256, int), obs={"cam": torch.zeros(256, 4)}, info=np.array([None] * 256))
    assert summary(batch) == "Batch[N=256]  act i64[256]  obs.cam torch f32[256,4]  info obj[256]"
    many = Batch({f"f{i}": np.zeros(i) for i in range(20)})
    assert summary(many).endswith("f11 f64[11]  and 8 more")


def test_the_repl_offers_the_fields():
    batch = Batch({"obs": 1, "a.b": 2})
    assert batch._ipython_key_completions_() == ["obs", "a.b"]
    assert "obs" in dir(batch)


def test_an_error_names_some_of_very_many_fields():
    batch = Batch({f"field{i}": i for i in range(20_000)})
    with pytest.raises(AttributeError) as caught:
        _ = batch.field20000
    text = str(caught.value)
    assert len(text) < 1000
    assert "field39, ...; did you mean 'field2000'" in text
