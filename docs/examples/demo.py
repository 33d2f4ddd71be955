"""What typedbatch is for, on one screen: a typed pipeline at work, mistakes found before a run, and within one.

``make demo``, or ``python docs/examples/demo.py``. All that it shows is measured while it runs; it fails when mypy
reports anything in ``pipeline.py``, misses a mistake in ``mistakes.py``, or reports a line there that is right.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from configparser import ConfigParser
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import broken
import measure
import numpy as np
import pipeline
from mypy.version import __version__ as mypy_version
from rich.box import HORIZONTALS, SIMPLE_HEAD
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from typedbatch import Batch, ObsBatch, validate

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROUNDS = 10
THEME, INDENT = "ansi_dark", (0, 0, 0, 2)
PURPOSE = (
    "Reinforcement-learning code hands batches of named arrays from collector to buffer to trainer. A field that is "
    "missing, misspelt or of the wrong kind shows at run time, maybe hours into a job, or never.\n\n"
    "With typedbatch every function says which fields it reads and which it makes. So editors and type checkers find "
    "such mistakes before anything runs, and what no checker can see is validated where it comes in."
)
NEXT = """\
docs/examples/pipeline.py  the pipeline: protocols where a batch comes in, records where one is made
docs/examples/mistakes.py  open it in an editor that knows Python: it underlines the same lines
README.md                  how to declare the fields of your own batches"""


# ---- 1: a pipeline at work ----------------------------------------------------------------------------------------


class Edge(NamedTuple):
    """A function, and a batch that goes into it."""

    function: Callable[..., object]
    batch: Batch

    @property
    def protocol(self) -> Any:
        return get_type_hints(self.function)["batch"]

    def signature(self) -> str:
        """The line of the program that says what goes in and what comes out."""
        lines = inspect.getsource(self.function).splitlines()
        return next(line for line in lines if line.startswith("def ")).rstrip(":")

    def fields(self) -> list[str]:
        return [name for name in self.batch.get_keys() if hasattr(self.protocol, name)]

    def microseconds(self) -> float:
        """What one ``validate`` costs: the best of several timings, as timeit advises."""
        batch, protocol, calls = self.batch, self.protocol, 100  # so few that the best burst was not interrupted
        return min(timeit.repeat(lambda: validate(batch, protocol), number=calls, repeat=100)) / calls * 1e6


def train(console: Console) -> list[pipeline.Iteration]:
    """Some rounds of collecting and learning, with a progress bar."""
    envs, rng = pipeline.make_envs(), np.random.default_rng(0)
    policy, value = pipeline.start()
    rounds: list[pipeline.Iteration] = []
    size = pipeline.N_ENVS * pipeline.N_STEPS
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} transitions")
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("", total=ROUNDS * size)
        for number in range(1, ROUNDS + 1):
            progress.update(bar, description=f"round {number} of {ROUNDS}, {size:,} each")
            rounds.append(pipeline.iterate(envs, policy, value, rng, partial(progress.advance, bar)))
            policy, value = rounds[-1].policy, rounds[-1].value
    envs.close()
    return rounds


def edges(done: pipeline.Iteration) -> list[Edge]:
    step = ObsBatch(obs=done.rollout.obs[: pipeline.N_ENVS], info=Batch())
    minibatch = next(done.ready.split(pipeline.MINIBATCH))
    return [
        Edge(pipeline.choose, step),
        Edge(pipeline.compute_returns, done.rollout),
        Edge(pipeline.compute_advantages, done.with_returns),
        Edge(pipeline.add_logp_old, done.with_advantages),
        Edge(pipeline.policy_gradient, minibatch),
    ]


def edge_table(edges: list[Edge], unit: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("edge", no_wrap=True)
    table.add_column("fields")
    table.add_column("shape of obs", no_wrap=True)
    table.add_column("checked in", justify="right", no_wrap=True)
    before: list[str] = []
    for edge in edges:
        fields = edge.fields()
        added = ", ".join(name for name in fields if name not in before)
        shape, cost = str(edge.batch["obs"].shape), f"{edge.microseconds():.1f} {unit}"
        name = f"{edge.function.__name__}()\n  asks for {edge.protocol.__name__}"
        table.add_row(name, f"those and {added}" if before else added, shape, cost)
        before = fields
    return table


def show_pipeline(console: Console) -> None:
    heading(console, "1  A typed pipeline at work: docs/examples/pipeline.py")
    done = train(console)
    crossed = edges(done[-1])
    console.print("This was PPO on CartPole. Its functions say which batches they take and which they make:\n")
    console.print(
        Syntax(
            "\n".join(edge.signature() for edge in crossed),
            "python",
            theme=THEME,
            background_color="default",
            word_wrap=True,
        )
    )
    console.print(
        f"\nThe pole fell every {done[0].steps_per_fall:.0f} steps in the first round, every "
        f"{done[-1].steps_per_fall:.0f} in the last. Each of these batches was checked on its way:"
    )
    console.print(edge_table(crossed, "µs" if console.encoding.startswith("utf") else "us"))


# ---- 2: mistakes before a run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """One error of mypy's."""

    file: str
    line: int
    message: str
    hint: str
    code: str

    def short(self) -> str:
        """The message with type arguments left out where they say nothing, and what a protocol misses."""
        text = re.sub(r"\bndarray\[(?:[^\[\]]|\[[^\[\]]*\])*\]", "ndarray", self.message)
        text = re.sub(r"\b(\w+)\[ndarray(?:, ndarray)*\]", r"\1", text)
        text = re.sub(r"\b(\w+)\[(\w+)(?:, \2)+\]", r"\1[\2]", text)
        if "is missing following" in self.hint:
            text += f" (it has no {', '.join(self.hint.split(':', 1)[1].split())})"
        return text


class Mypy:
    """mypy at work in the background, on the pipeline, the mistakes, and the mistakes put right."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.folder = tempfile.TemporaryDirectory()
        put_right = Path(self.folder.name, "mistakes_put_right.py")
        put_right.write_text(measure.put_right(measure.MISTAKES.read_text()))
        files = [HERE / "pipeline.py", measure.MISTAKES, put_right]
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            str(ROOT / "mypy.ini"),
            "--output",
            "json",
        ]
        self.process = subprocess.Popen(
            [*command, *files], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

        atexit.register(self.process.kill)  # in case the pipeline fails first

    def reports(self) -> list[Report]:
        """Wait for it, and read what it says."""
        out, err = self.process.communicate()
        self.seconds = time.perf_counter() - self.started
        self.folder.cleanup()
        if self.process.returncode not in (0, 1):
            raise RuntimeError(f"mypy failed: {err or out}")
        found = [json.loads(line) for line in out.splitlines()]
        return [
            Report(Path(one["file"]).name, one["line"], one["message"], one["hint"] or "", one["code"])
            for one in found
            if one["severity"] == "error"
        ]


def plugins() -> str:
    config = ConfigParser()
    config.read(ROOT / "mypy.ini")
    return config.get("mypy", "plugins", fallback="")


def run_mistakes() -> dict[int, measure.Outcome]:
    """What Python makes of each mistake, by number; in another process, which has its typedbatch taken away."""
    done = subprocess.run([sys.executable, HERE / "measure.py"], stdout=subprocess.PIPE, text=True, check=True)
    return {one["number"]: measure.Outcome(**one) for one in json.loads(done.stdout)}


def mistake_table(mistakes: list[measure.Mistake], said: dict[int, Report], ran: dict[int, measure.Outcome]) -> Table:
    python = Syntax("", "python", theme=THEME, background_color="default")
    table = Table(box=HORIZONTALS, show_lines=True, pad_edge=False, expand=True)
    table.add_column("line", justify="right")
    table.add_column("the mistake, and what mypy says before anything runs", ratio=9, overflow="fold")
    table.add_column("what Python does with it", ratio=4, overflow="fold")
    for mistake in mistakes:
        source = python.highlight(mistake.source)
        source.rstrip()
        source.no_wrap, source.overflow = False, "fold"
        report = Text(said[mistake.line].short()) if mistake.line in said else Text("nothing", "bold red")
        report = Text.assemble(("mypy: ", "bold yellow"), report)
        what = Group(Text(mistake.words, "bold"), Padding(source, INDENT), Padding(report, INDENT))
        table.add_row(str(mistake.line), what, in_words(ran[mistake.number]))
    return table


def in_words(outcome: measure.Outcome) -> Text:
    if outcome.error:
        return Text(f"{outcome.error}, after {outcome.transitions:,} transitions ({outcome.seconds:.2f} s)")
    return Text.assemble(("no error", "bold red"), f"; {outcome.difference or 'the result is right, by luck'}")


def complaints(mistakes: list[measure.Mistake], reports: list[Report]) -> list[str]:
    """Where mypy was not exactly right: one error for each mistake, and not one elsewhere."""
    marked = {(measure.MISTAKES.name, mistake.line) for mistake in mistakes}
    said = {(report.file, report.line): report for report in reports}
    missed = [f"mypy missed the mistake in {file}:{line}" for file, line in sorted(marked - said.keys())]
    return missed + [
        f"mypy reports {file}:{line}, which should be right: {said[file, line].short()}"
        for file, line in sorted(said.keys() - marked)
    ]


def show_mistakes(console: Console, mypy: Mypy) -> list[str]:
    """Print what mypy and Python make of the mistakes; or, if mypy was not exactly right, return where."""
    heading(console, "2  Mistakes, before anything runs: docs/examples/mistakes.py")
    with console.status("mypy reads the examples, torch and numpy; the first time takes a while"):
        reports = mypy.reports()
        mistakes = measure.read_mistakes(measure.MISTAKES.read_text())
        wrong = complaints(mistakes, reports)
        if wrong:
            return wrong
        ran = run_mistakes()
    said = {report.line: report for report in reports if report.file == measure.MISTAKES.name}
    console.print(
        f"{len(mistakes)} of its lines are wrong. mypy reads them; Python runs them, on batches without types, where "
        "any field may be set and nothing is checked. What comes out is compared with the result of the line put right."
    )
    console.print(mistake_table(mistakes, said, ran))
    found = sum(mistake.line in said for mistake in mistakes)
    silent = sum(not outcome.error for outcome in ran.values())
    console.print(
        f"[bold]mypy found {found} of {len(mistakes)} mistakes; run, {silent} of them raise no error.[/]\n"
        "It reports no other line, nothing in pipeline.py, and nothing once the lines are put right.\n"
        f"(mypy {mypy_version} --strict, plugins: {plugins() or 'none'}; it took {mypy.seconds:.0f} s)"
    )
    return []


# ---- 3: mistakes within a run -------------------------------------------------------------------------------------


def show_broken(console: Console) -> None:
    heading(console, "3  Within a run, what no checker can see: docs/examples/broken.py")
    console.print("Three batches that came from elsewhere, and what validate() and @checked say of them.")
    for function in broken.BROKEN:
        console.print(f"[bold]{function.__doc__}[/]")
        console.print(Text(broken.report(function)), soft_wrap=True)
        console.print()


# ---- all of it ----------------------------------------------------------------------------------------------------


def heading(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}", align="left")


def make_console() -> Console:
    """As wide as the terminal, within reason; 100 columns where there is none, as in CI."""
    console = Console(highlight=False)
    known = console.is_terminal or "COLUMNS" in os.environ
    console.width = min(console.width, 120) if known else 100
    return console


def main() -> int:
    console = make_console()
    console.print(Panel(PURPOSE, title="typedbatch"))
    mypy = Mypy()
    show_pipeline(console)
    wrong = show_mistakes(console, mypy)
    for line in wrong:
        console.print(Text(line, "bold red"))
    if wrong:
        return 1
    show_broken(console)
    heading(console, "Next")
    console.print(NEXT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
