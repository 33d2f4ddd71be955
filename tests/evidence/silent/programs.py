"""The programs, and what an audit says of each."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from typedbatch.audit import Audit, Report, audit, audit_logp, audit_pairs, audit_reward, audit_stage

PROGRAMS = Path(__file__).parent / "programs"
FIELDS = ("rl", "posttraining")
SETS = ("first", "second", "third", "fourth")
STAGES = {"logp": audit_logp, "reward": audit_reward, "sample": audit_stage, "pairs": audit_pairs}
UPDATES = 2
_numbers = count()


def folders(field: str, which: str) -> list[Path]:
    """The folders of a set, each with a program or two."""
    return sorted(path for path in (PROGRAMS / field / which).glob("[0-9]*") if path.is_dir())


def audited(path: Path) -> Report:
    """The report of two updates, of a third with replays, and of the stages that the program names."""
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
