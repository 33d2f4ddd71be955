"""The package as checkers and introspection see it: complete types, and protocols and records that are twins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import typedbatch
from tests.typing.checkers import run_tool
from tests.typing.test_checkers import public_names
from typedbatch.schema import schema_of
from typedbatch.schema.fields import Field

TWINS = {
    "LogpOldBatch": "LogpOldProtocol",
    "RecurrentState": "RecurrentStateBatch",
    **{
        name: f"{name}Protocol"
        for name in (
            "ActBatch", "ActStateBatch", "BatchWithAdvantages", "BatchWithReturns", "DistBatch", "DistLogProbBatch",
            "FQFBatch", "ImitationBatch", "ModelOutputBatch", "ObsBatch", "PrioBatch", "QuantileRegressionBatch",
            "RolloutBatch",
        )
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def completeness(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    # pyright finds the package through the python that is first in PATH here; --pythonpath is not heeded
    command = ["pyright", "--verifytypes", "typedbatch", "--ignoreexternal", "--outputjson"]
    report: dict[str, Any] = json.loads(run_tool(command, tmp_path_factory.mktemp("verify")).stdout)
    found: dict[str, Any] = report["typeCompleteness"]
    assert Path(found["packageRootDirectory"]).resolve() == Path(typedbatch.__file__).parent
    return found


def test_every_type_is_known(completeness: dict[str, Any]) -> None:
    lacking = [
        f"{symbol['name']}: {diagnostic['message']}"
        for symbol in completeness["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
        for diagnostic in symbol["diagnostics"]
    ]
    assert completeness["completenessScore"] == 1, "\n".join(lacking)


def test_pyright_and_run_time_see_the_same_names(completeness: dict[str, Any]) -> None:
    names = [symbol["name"] for symbol in completeness["symbols"] if symbol["category"] != "module"]
    top = [name.removeprefix("typedbatch.") for name in names if name.count(".") == 1]
    assert public_names() == sorted(name for name in top if not name.startswith("_"))


def test_all_names_every_public_name() -> None:
    assert sorted(typedbatch.__all__) == public_names()


def test_every_record_and_protocol_has_its_twin() -> None:
    protocols = {name for name in public_names() if getattr(getattr(typedbatch, name), "_is_protocol", False)}
    classes = {name for name in public_names() if isinstance(getattr(typedbatch, name), type)}
    records = {name for name in classes if issubclass(getattr(typedbatch, name), typedbatch.BatchRecord)}
    assert set(TWINS.values()) == protocols - {"BatchProtocol", "ArrayOrTensor"}
    assert set(TWINS) == records - {"BatchRecord"}


@pytest.mark.parametrize("stage", ["numpy", "torch"])
@pytest.mark.parametrize("record", TWINS)
def test_twins_declare_the_same_fields(record: str, stage: str) -> None:
    def fields(name: str) -> dict[str, tuple[object, ...]]:
        hint = getattr(typedbatch, name)
        if stage == "torch":
            hint = hint[pytest.importorskip("torch").Tensor]
        return {field.name: _what(field) for field in schema_of(hint).fields}

    assert fields(record) == fields(TWINS[record])


def _what(field: Field) -> tuple[object, ...]:
    return field.kinds, field.nested, field.expects(), field.optional
