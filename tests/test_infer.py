"""Declarations written from data: what they say, and that the data fulfils them."""

from __future__ import annotations

import sys
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal

from tests.strategies import batches
from tests.typing.caches import MYPY, warm
from tests.typing.checkers import run_tool
from typedbatch import Batch, BatchRecord, RolloutBatch, SchemaError, objects, validate
from typedbatch.errors import FieldNameError, LeafError, SettingError
from typedbatch.infer import Style, infer_schema

styles = st.sampled_from(get_args(Style))
every_style = pytest.mark.parametrize("style", get_args(Style))


def declared(source: str, name: str = "Inferred") -> Any:
    namespace: dict[str, Any] = {"__name__": "inferred"}
    exec(compile(source, "inferred.py", "exec", dont_inherit=True), namespace)
    return namespace[name]


def body(batch: Batch, **options: Any) -> list[str]:
    """The declarations of the outer class."""
    source = infer_schema(batch, style="record", **options)
    return source.split("class Inferred(BatchRecord):\n")[1].rstrip("\n").split("\n")


def steps(rows: int = 5) -> Batch:
    return Batch(
        obs={"cam": np.zeros((rows, 8, 6), np.uint8), "pos": np.zeros((rows, 3), np.float32)},
        act=torch.zeros(rows, 2),
        rew=np.zeros(rows),
        note="first",
    )


def test_a_record_ready_to_paste():
    assert infer_schema(steps(), "Steps", "record") == (
        "import numpy as np\n"
        "from jaxtyping import Float32, Float64, UInt8\n"
        "from torch import Tensor\n"
        "\n"
        "from typedbatch import BatchRecord\n"
        "\n\n"
        "class Obs(BatchRecord):\n"
        '    cam: UInt8[np.ndarray, "N cam_0 cam_1"]\n'
        '    pos: Float32[np.ndarray, "N pos_dim"]\n'
        "\n\n"
        "class Steps(BatchRecord):\n"
        "    obs: Obs\n"
        '    act: Float32[Tensor, "N act_dim"]\n'
        '    rew: Float64[np.ndarray, "N"]\n'
        "    note: str\n"
    )


def test_a_protocol_is_one():
    source = infer_schema(steps(), "Steps")
    assert source.startswith("from typing import Protocol\n\nimport numpy as np\n")
    assert "class Steps(BatchProtocol, Protocol):\n    obs: Obs\n" in source


def test_sizes_are_numbers_if_asked():
    assert body(Batch(a=np.zeros((5, 3, 2)), b=np.zeros(5)), sizes=True) == [
        '    a: Float64[np.ndarray, "N 3 2"]',
        '    b: Float64[np.ndarray, "N"]',
    ]


def test_related_fields_share_the_names_of_equal_sizes():
    batch = Batch(obs=np.zeros((5, 3)), obs_next=np.zeros((5, 3)), act=np.zeros((5, 3)), obs_cut=np.zeros((5, 2)))
    assert [line.split('"')[1] for line in body(batch)] == ["N obs_dim", "N obs_dim", "N act_dim", "N obs_cut_dim"]


def test_equal_names_in_nested_batches_of_other_sizes():
    batch = Batch(a={"x": np.zeros((5, 3))}, b={"x": np.zeros((5, 2))}, c={"x": np.zeros((5, 3))})
    source = infer_schema(batch)
    assert [line.split('"')[1] for line in source.split("\n") if "    x:" in line] == ["N x_dim", "N x2_dim", "N x_dim"]
    validate(batch, declared(source))


def test_other_leading_sizes_have_other_names():
    lines = body(Batch(a=np.zeros(5), b=np.zeros(5), c=np.zeros(2), d=np.zeros((3, 5)), t=np.zeros(2, "M8[s]")))
    assert [line.split('"')[1] for line in lines] == ["N", "N", "M", "K d_dim", "M ..."]


def test_what_is_no_array_of_numbers():
    batch = Batch(n=np.zeros(2), none=None, reserved={}, text="x", i=np.int32(1), flag=True, f=0.5)
    batch["objects"], batch["times"] = np.array(["a", None], object), np.zeros(2, "M8[s]")
    batch["dist"] = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
    assert body(batch)[1:] == [
        "    none: None", "    reserved: Batch", "    text: str", "    i: np.int32", "    flag: np.bool",
        "    f: np.float64", "    objects: NDArray[np.object_]", "    times: NDArray[np.datetime64]",
        "    dist: Distribution",
    ]  # fmt: skip


def test_names_that_no_class_can_declare_are_comments():
    batch = Batch({"agent 1": np.zeros(2), "class": np.zeros(2), "keys": np.zeros(2), "fine": np.zeros(2)})
    lines = body(batch)
    assert lines[0] == "    # 'agent 1': Float64[np.ndarray, \"N\"], which no class can declare"
    assert [line.lstrip()[0] for line in lines] == ["#", "#", "#", "f"]
    assert declared(infer_schema(Batch({"a b": np.zeros(2)}))).__name__ == "Inferred"


@every_style
def test_related_batches_share_a_class_and_values_are_a_field(style):
    camera = {"x": np.zeros((2, 3))}
    batch = Batch(obs=camera, obs_next=camera, other=camera, obs_cut={"x": np.zeros((2, 1))}, values=np.zeros(2))
    source = infer_schema(batch, "Steps", style)
    for text in (
        "    obs: Obs\n",
        "    obs_next: Obs\n",
        "    other: Other\n",
        "    obs_cut: ObsCut\n",
        "    values: Float64",
    ):
        assert text in source
    assert source.count("class Obs") == 2
    validate(batch, declared(source, "Steps"))


def test_classes_have_names_of_their_own():
    batch = Batch(obs={"obs": {"a": np.zeros(2)}}, batch_record={"a": np.zeros(2)}, float64={"a": np.zeros(2)})
    source = infer_schema(batch, "Obs", "record")
    names = [line.split()[1].split("(")[0] for line in source.split("\n") if line.startswith("class ")]
    assert len(set(names)) == len(names) == 5
    assert "BatchRecord" not in names
    validate(batch, declared(source, names[-1]))


@given(batches(), styles, st.booleans())
def test_the_data_fulfils_what_is_written_from_it(batch, style, sizes):
    schema = declared(infer_schema(batch, style=style, sizes=sizes))
    found = validate(batch, schema)
    if style == "protocol":
        assert found is batch
    else:
        assert type(found) is schema


@every_style
def test_other_rows_pass_and_other_kinds_do_not(style):
    schema = declared(infer_schema(steps(5), style=style))
    validate(steps(9), schema)
    for field, value in [("rew", np.zeros(4)), ("act", np.zeros((5, 2))), ("rew", np.zeros(5, int)), ("note", 3)]:
        with pytest.raises(SchemaError, match=field):
            validate(Batch(steps(), **{field: value}), schema)


def test_a_record_is_constructed():
    schema = declared(infer_schema(Batch(a=np.zeros(2)), style="record"))
    assert issubclass(schema, BatchRecord)
    assert schema(a=np.ones(3)).a.tolist() == [1, 1, 1]


@pytest.mark.slow
def test_a_checker_reads_it(kept, tmp_path):
    (tmp_path / "mypy.ini").write_text(MYPY.settings["mypy.ini"])
    (tmp_path / "mine.py").write_text(infer_schema(steps(), "Steps", "record"))
    done = run_tool(["mypy", f"--cache-dir={warm(kept, MYPY, tmp_path / 'cache')}", "mine.py"], tmp_path)
    assert done.stdout.startswith("Success"), done.stdout


def test_what_is_refused():
    with pytest.raises(LeafError, match=r"infer_schema\(\) takes a Batch, got dict"):
        infer_schema({"a": 1})
    with pytest.raises(SettingError, match="style= must be 'protocol' or 'record', got 'class'"):
        infer_schema(Batch(), style="class")  # type: ignore[arg-type]
    for name in ("two words", "class", "", 3):
        with pytest.raises(FieldNameError, match="name= must be a valid name of a class, got"):
            infer_schema(Batch(), name)  # type: ignore[arg-type]


def test_a_record_of_the_library_can_be_inferred_from():
    flags = np.zeros(2, bool)
    record = RolloutBatch(obs=flags, act=flags, rew=flags, terminated=flags, truncated=flags, obs_next=flags, info={})
    validate(record, declared(infer_schema(record)))


@pytest.mark.parametrize(
    "batch",
    [
        Batch(tensor={"a": np.zeros(2)}, x=torch.zeros(2)),
        Batch(float64={"a": np.zeros(2)}, x=np.zeros(2)),
        Batch(batch={"a": np.zeros(2)}, x={}),
        Batch(distribution={"a": np.zeros(2)}, x=Normal(torch.zeros(2), torch.ones(2))),
        Batch(a=Normal(torch.zeros(5), torch.ones(5)), b=np.zeros(3), c=np.zeros(3)),
        Batch({"a²": {"x": np.zeros(2)}, "µ": np.zeros(2), "\u2115": {"²": np.zeros(2)}, "²": {"x": np.zeros(2)}}),
    ],
    ids=["tensor", "float64", "batch", "distribution", "distribution of other rows", "unicode"],
)
@every_style
def test_names_that_mean_something_else(batch, style):
    validate(batch, declared(infer_schema(batch, style=style)))


def test_what_is_inferred_of_twice_the_fields_takes_twice_the_calls():
    def calls(count: int) -> int:
        shapes = [(4, 3), (4, 5)]
        wide = Batch({f"f{i}": np.zeros(shapes[i % 2]) for i in range(count)})
        wide["n"] = Batch({f"g{i}": Batch(camera=np.zeros((i, i + 1))) for i in range(count)})
        made = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += 1

        sys.setprofile(note)
        infer_schema(wide)
        sys.setprofile(None)
        return made

    assert calls(400) < 2.2 * calls(200)


@pytest.mark.parametrize("items", [["a", "b"], [b"", b""]], ids=lambda items: type(items[0]).__name__)
def test_a_column_of_plain_items_declares_their_type(items: list[object]):
    batch = Batch(x=objects(items))
    assert body(batch) == [f"    x: Column[{type(items[0]).__name__}]"]
    validate(batch, declared(infer_schema(batch, style="record")))
