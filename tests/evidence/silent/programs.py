"""The programs, and what an audit says of each."""

from __future__ import annotations

import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch

from tests.pairs import right_of, wrong_of
from typedbatch.audit import Audit, Report, audit, audit_logp, audit_pairs, audit_reward, audit_stage

PROGRAMS = Path(__file__).parent / "programs"
FIELDS = ("rl", "posttraining")
SETS = ("first", "second", "third", "fourth")
STAGES = {"logp": audit_logp, "reward": audit_reward, "sample": audit_stage, "pairs": audit_pairs}
UPDATES = 2
_numbers = count()


def programs(field: str, which: str) -> list[Path]:
    """Return the programs of a set, each with its mistake as a mark, or right."""
    return sorted((PROGRAMS / field / which).glob("[0-9]*.py"))


def audited(path: Path, version: Literal["right", "wrong"]) -> Report:
    """Return the report of two updates, of a third with replays, and of the stages that the program names."""
    text = path.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{version}.py"
        file.write_text(right_of(text) if version == "right" else wrong_of(text), "utf-8")
        return _report_of(file)


def _report_of(path: Path) -> Report:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        program = _loaded(path)
        update, draw = program.setup(0)
        traced = Audit(updates=UPDATES, on_finding="keep")
        for _ in range(UPDATES):
            traced.call(update, *draw())
        report = traced.report
        report.merge(audit(update, *draw()))
        for name, given in (program.stages(0) if hasattr(program, "stages") else {}).items():
            stage: Any = STAGES[name]
            report.merge(stage(*given))
    finally:
        torch.set_num_threads(threads)
    return report


def _loaded(path: Path) -> ModuleType:
    name = f"silent_{next(_numbers)}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
