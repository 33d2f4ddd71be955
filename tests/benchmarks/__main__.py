"""``python -m tests.benchmarks``: time every operation, here and in the peers, and prove what is not copied."""

from __future__ import annotations

import argparse

import torch

from .audits import measure_audits
from .branches import measure_branches
from .buffers import buffer_memory, measure_buffers
from .checking import measure_checking
from .compiled import measure_compiled
from .data import data_sets
from .distributed import measure_distributed
from .editing import measure_editing
from .files import measure_files
from .growth import measure_growth
from .imports import measure_imports
from .memory import check_memory
from .meta import measure_meta
from .operations import operations
from .packing import measure_packing
from .peers import MODULES, installed
from .posttraining import measure_posttraining
from .prioritized import TITLE as PRIORITIZED
from .prioritized import measure_prioritized
from .processes import measure_processes
from .program_runs import measure_program_runs
from .promises import TITLE as PROMISES
from .promises import measure_promises
from .ragged import TITLE as RAGGED
from .ragged import measure_ragged
from .report import Report
from .sample_batches import measure_sample_batches
from .sequences import TITLE as SEQUENCES
from .sequences import measure_sequences
from .timing import measure
from .trained import DQN, DQN_STEPS, measure_dqn, measure_ppo
from .training import measure_training
from .validation import measure_validation

DESCRIPTIONS = {
    "flat": "256 rows, 7 fields, obs f32[256,4], info nested",
    "nested": "256 rows, obs and obs_next nested: camera u8[256,3,16,16] and lidar f32[256,32]",
}

TABLES = (
    "memory", "validation", "buffers", "prioritized", "promises", "sequences", "training", "trained", "ray", "rllib",
    "files", "import", "program", "checking", "editing", "branches", "growth", "ragged", "meta", "posttraining",
    "packing", "processes", "compile", "audit",
)  # fmt: skip


def main() -> int:
    """Exit status 1 if a result is wrong or something is copied that should not be; slowness is only shown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        default="",
        help="operations with NAME in their name, or one of these tables: " + ", ".join(TABLES),
    )
    parser.add_argument("--markdown", action="store_true", help="print tables for the docs")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # CPU time would count every thread's
    modules = installed()
    sets = data_sets()
    tables = [[row for row in operations(data, modules) if arguments.only in row.name] for data in sets]
    if not any(tables) and not any(arguments.only in name for name in TABLES):
        parser.error(f"no operation has {arguments.only!r} in its name")
    report = Report(arguments.markdown)
    report.heading(list(modules), [name for name in MODULES if name not in modules])
    wrong = False
    for data, table in zip(sets, tables, strict=True):
        if table:
            rows = [measure(operation, list(modules)) for operation in table]
            report.times(data.name, DESCRIPTIONS[data.name], rows, list(modules))
            wrong |= any("typedbatch" in row.wrong for row in rows)
    if arguments.only in "validation":
        for torch_ in (False, True):
            report.validation(measure_validation(torch_))
    if arguments.only in "memory":
        for data in sets:
            checks = check_memory(data)
            report.memory(f"memory, {data.name}", checks)
            wrong |= not all(check.right for check in checks)
    if arguments.only in "buffers":
        report.buffers(measure_buffers(), buffer_memory())
    if arguments.only in "prioritized" and (prioritized := measure_prioritized()):
        report.by_hand(PRIORITIZED, prioritized)
    if arguments.only in "promises" and (promises := measure_promises()):
        report.by_hand(PROMISES, promises)
    if arguments.only in "sequences" and (sequences := measure_sequences()):
        report.by_hand(SEQUENCES, sequences)
    if arguments.only in "training":
        for envs, collected in measure_training():
            report.training(envs, collected)
    if arguments.only in "trained":
        report.trained("PPO on CartPole to a mean of 475, seeds 0, 1, 2", measure_ppo(), 1.1)
        for name, settings in DQN.items():
            report.trained(f"3-step double DQN on CartPole, {DQN_STEPS:,} steps, {name}", measure_dqn(settings), 1.15)
    if arguments.only in "ray":
        report.distributed(measure_distributed())
    if arguments.only in "rllib":
        report.by_hand(*measure_sample_batches(), "RLlib, us", "typedbatch / RLlib", absent="RLlib")
    if arguments.only in "files":
        report.by_hand("files, in memory", measure_files(), "theirs, us", "typedbatch / theirs")
    if arguments.only in "import":
        imports = measure_imports()
        report.imports(imports)
        wrong |= bool(imports.loaded)
    if arguments.only in "program":
        report.program_runs([*measure_program_runs()])
    if arguments.only in "checking":
        report.checking(measure_checking())
    if arguments.only in "editing":
        report.editing([*measure_editing()])
    if arguments.only in "branches":
        report.branches(measure_branches())
    if arguments.only in "growth":
        report.growth(measure_growth())
    if arguments.only in "ragged":
        report.by_hand(RAGGED, measure_ragged(), "floor, ms")
    if arguments.only in "meta":
        report.meta(measure_meta())
    if arguments.only in "posttraining":
        for size, rows in measure_posttraining():
            report.by_hand(f"post-training: {size}, ten columns of tensors and five of objects", rows)
    if arguments.only in "packing":
        for title, packing in measure_packing():
            report.by_hand(title, packing)
    if arguments.only in "processes":
        report.by_hand("other processes, beside a dict of four tensors", measure_processes())
    if arguments.only in "compile":
        report.by_hand("torch.compile, beside a dict of tensors", measure_compiled())
    if arguments.only in "audit":
        title = "updates under an audit; the floor is a plain update"
        report.by_hand(title, [*measure_audits()], "floor, ms", "traced")
    report.summary()
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
