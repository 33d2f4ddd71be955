"""The tables: for people, plain when they are piped, or as markdown for the docs."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .branches import COUNTS, GROWTH_BAR, Branches
from .buffers import ENVS, MEMORY_BAR
from .buffers import Row as BufferRow
from .checking import BAR as CHECKING_BAR
from .checking import SHARE_BAR, Checking
from .distributed import Distributed
from .editing import Wait
from .growth import BAR as GROWTH_OF_PROGRAMS_BAR
from .growth import Growth
from .imports import BAR, HEAVY, Imports
from .memory import Memory
from .meta import MetaRow
from .program_runs import BAR as PROGRAM_BAR
from .program_runs import ProgramRun
from .timing import Measured, Ratio, Row
from .trained import DQN_STEPS, TIANSHOU_BAR, Trained
from .training import STEPS
from .validation import BAR as VALIDATION_BAR
from .validation import FAILURE_BAR, Validation

LEGEND = (
    "Ratios to the floor, the loop over a dict of arrays that does the same by hand: 1.00 costs nothing beyond it. "
    "± is half the distance between the quartiles. ! misses its bar; < is a peer that is at least 5% ahead."
)
LEFT_OUT = {
    "nested": "nested batches",
    "memory, nested": "their memory",
    "collectors, 16 CartPoles": "collectors of 16 CartPoles",
    f"3-step double DQN on CartPole, {DQN_STEPS:,} steps, 1 environment": "DQN with 1 environment",
    "post-training: 1024 x 4096": "post-training of 1024 x 4096",
}
"""Tables that are not on the page, as another says much the same: how their titles begin, and their names there."""
ELSEWHERE = (
    f"`make bench` also prints tables that say much the same as others: {', '.join(LEFT_OUT.values())}. The bars "
    "missed, at the end, are those of all tables."
)
AHEAD = 0.95


class Report:
    """Prints each table as soon as its figures are there."""

    def __init__(self, markdown: bool) -> None:
        self.markdown = markdown
        self.missed: dict[str, list[str]] = {}
        """The data sets in which an operation missed its bar."""
        self.console = Console(highlight=False)
        self.plain = markdown or not self.console.is_terminal
        self.console.width = max(120, self.console.width)  # whatever a pipe's width is said to be, nothing is cut

    def say(self, text: str) -> None:
        """A line of text; in markdown a paragraph, which is wrapped elsewhere."""
        self.console.print(f"\n{text}" if self.markdown else text, soft_wrap=self.markdown, markup=False)

    def heading(self, peers: list[str], absent: list[str]) -> None:
        if self.markdown:
            self.say("# Performance")
            self.say(f"This page is what `make bench-docs` printed, nothing else. {ELSEWHERE}")
            self.say("![The flat batch of the first table, logarithmic](../pictures/performance.svg)")
        packages = ["numpy", "torch", *peers]
        self.say(f"Python {platform.python_version()}, {', '.join(f'{name} {_version(name)}' for name in packages)}")
        for name in absent:
            self.say(f"{name} is not installed, so it is left out")
        self.say(LEGEND)

    def times(self, name: str, description: str, rows: list[Measured], peers: list[str]) -> None:
        table = self._table(f"{name}: {description}", "operation", "floor, us", "typedbatch", "bar", *peers)
        for row in rows:
            bar = row.operation.bar
            if _misses(row):
                self.missed.setdefault(row.operation.name, []).append(name)
            figures = f"{row.floor * 1e6:.2f}", _own_cell(row), "" if bar is None else f"{bar:.2f}"
            table.add_row(row.operation.name, *figures, *(_peer_cell(row, peer) for peer in peers))
        self._print(table)
        for row in rows:
            for contender, why in row.wrong.items():
                self.say(f"{row.operation.name}: {contender} {why}")

    def memory(self, title: str, rows: list[Memory]) -> None:
        table = self._table(title, "operation", "result, KiB", "allocated, KiB", "leaves shared", "as meant")
        for row in rows:
            figures = f"{row.result / 1024:.1f}", f"{row.peak / 1024:.1f}", f"{row.shared} of {row.leaves}"
            table.add_row(row.name, *figures, "yes" if row.right else "[bold red]NO[/]")
        self._print(table)

    def imports(self, imports: Imports) -> None:
        missed = imports.ratio.median > BAR
        if missed:
            self.missed["import"] = []
        table = self._table("import, in a fresh interpreter", "module", "ms", "typedbatch / numpy", "bar")
        table.add_row("numpy", f"{imports.numpy * 1e3:.1f}", "", "")
        table.add_row("typedbatch", f"{imports.typedbatch * 1e3:.1f}", _own(imports.ratio, missed), f"{BAR:.2f}")
        self._print(table)
        heavy = " or ".join(HEAVY)
        loaded = ", ".join(imports.loaded)
        self.say(f"import typedbatch loads {loaded}" if loaded else f"import typedbatch does not load {heavy}")

    def validation(self, result: Validation) -> None:
        title = f"validation of {result.name}: 256 rows; the floor is {result.floor * 1e6:.2f} us"
        table = self._table(title, "contender", "ratio", "bar", "finds rew missing", "act float32", "obs 255 rows")
        ours = [row for row in result.contenders if row.bar is not None]
        for row in result.contenders:
            assert row.ratio is not None
            missed = row.bar is not None and row.ratio.median > row.bar
            behind = any(one.ratio is not None and row.ratio.median < one.ratio.median for one in ours)
            if missed or (behind and row not in ours):
                self.missed.setdefault(f"validation: {row.name}", []).append(result.name)
            finds = ["yes" if name in row.finds else "-" for name in ("missing", "dtype", "rows")]
            bar = "" if row.bar is None else f"{row.bar:.2f}"
            table.add_row(row.name, _own(row.ratio, missed), bar, *finds)
        for name, ratio, limit in (
            ("generated check, 256,000 rows", result.many_rows, VALIDATION_BAR),
            ("a failure with 3 problems", result.failure, FAILURE_BAR),
            ("the same, and its text", result.failure_and_text, None),
        ):
            assert ratio is not None
            missed = limit is not None and ratio.median > limit
            if missed:
                self.missed.setdefault(name, []).append(result.name)
            table.add_row(name, _own(ratio, missed), "" if limit is None else f"{limit:.2f}", "", "", "")
        self._print(table)

    def training(self, envs: int, rows: list[BufferRow]) -> None:
        title = f"collectors, {envs} CartPoles: {STEPS} steps of each; the floor is a loop that writes arrays"
        table = self._table(title, "operation", "floor, us", "typedbatch", "bar", "tianshou")
        self._add_rows(table, "training", rows)
        self._print(table)

    def trained(self, title: str, rows: list[Trained], bar: float) -> None:
        """The floor is the first row; of Tianshou the time counts, as its steps are not the same."""
        table = self._table(title, "trainer", "steps", "CPU, s", "median, s", "a step, us", "beside the script, a step")
        script = rows[0]
        for row in rows:
            ratio = row.a_step / script.a_step
            missed = row.name == "typedbatch" and ratio > bar
            if row.name == "tianshou":
                missed = rows[1].median > TIANSHOU_BAR * row.median
            if missed:
                self.missed.setdefault(f"training: {title}", [])
            cell = f"[bold red]{ratio:.2f} ![/]" if missed else f"{ratio:.2f}"
            steps, seconds = (", ".join(map(str, row.steps)), ", ".join(f"{one:.1f}" for one in row.seconds))
            table.add_row(row.name, steps, seconds, f"{row.median:.2f}", f"{row.a_step * 1e6:.0f}", cell)
        self._print(table)

    def distributed(self, rows: list[Distributed]) -> None:
        if not rows:
            self.say("Ray is not installed, so it is left out; make bench installs it")
            return
        table = self._table("Ray, in this machine", "operation", "floor, ms", "typedbatch", "bar")
        for row in rows:
            if row.missed:
                self.missed.setdefault(f"Ray: {row.name}", [])
            bar = f"{'at least ' if row.more_is_better else ''}{row.bar:.2f}"
            cell = f"[bold red]{row.ratio:.2f} ![/]" if row.missed else f"{row.ratio:.2f}"
            table.add_row(row.name, f"{row.floor:.1f}", cell, bar)
        self._print(table)

    def _add_rows(self, table: Table, what: str, rows: list[BufferRow]) -> None:
        for row in rows:
            behind = row.tianshou is not None and row.own.median > row.tianshou.median
            missed = behind or (row.bar is not None and row.own.median > row.bar)
            if missed:
                self.missed.setdefault(f"{what}: {row.name}", [])
            bar = "ahead" if row.bar is None else f"{row.bar:.2f}"
            theirs = "" if row.tianshou is None else f"{row.tianshou.median:.2f}"
            table.add_row(row.name, f"{row.floor * 1e6:.2f}", _own(row.own, missed), bar, theirs)

    def buffers(self, rows: list[BufferRow], memory: dict[str, float]) -> None:
        title = f"replay buffers: a row of 7 fields; the floor is a ring of arrays; add {ENVS} is per call"
        table = self._table(title, "operation", "floor, us", "typedbatch", "bar", "tianshou")
        self._add_rows(table, "buffers", rows)
        for name, share in memory.items():
            missed = share > MEMORY_BAR
            if missed:
                self.missed.setdefault(f"memory of {name}", [])
            cell = f"[bold red]{share:.4f} ![/]" if missed else f"{share:.4f}"
            table.add_row(f"memory of {name} / its arrays", "", cell, f"{MEMORY_BAR:.2f}", "")
        self._print(table)

    def meta(self, rows: list[MetaRow]) -> None:
        """Times beside a loop over the fields that knows of no meta."""
        title = "meta: seven fields of f32[256,4], and three keys of meta or none"
        table = self._table(title, "operation", "floor, us", "without meta", "with meta")
        for row in rows:
            cells = (f"{ratio.median:.2f} ±{ratio.spread:.2f}" for ratio in (row.without, row.with_meta))
            table.add_row(row.name, f"{row.floor * 1e6:.2f}", *cells)
        self._print(table)

    def by_hand(
        self, title: str, rows: list[Row], floor: str = "floor, us", own: str = "typedbatch", absent: str = ""
    ) -> None:
        """Print times beside the same by hand or by a peer, whose column is called ``floor``."""
        if not rows:
            self.say(f"{absent} is not installed, so {title} are left out; make bench installs it")
            return
        others = [name for name in rows[0].ratios if name != "typedbatch"]
        table = self._table(title, "operation", floor, own, "bar", *others)
        for row in rows:
            if row.missed:
                self.missed.setdefault(row.name, []).append(title.partition(", ")[0])
            seconds = f"{row.floor * (1e3 if floor.endswith('ms') else 1e6):.2f}" if row.floor else ""
            bar = "" if row.bar is None else f"{row.bar:.3g}" if row.bar < 0.1 else f"{row.bar:.2f}"
            cells = (f"{row.ratios[name].median:.2f}" if name in row.ratios else "-" for name in others)
            table.add_row(row.name, seconds, _own(row.ratios["typedbatch"], row.missed), bar, *cells)
        self._print(table)

    def editing(self, waits: list[Wait]) -> None:
        """Print the waits in an editor, beside their budgets."""
        table = self._table("the language server", "", "median", "budget")
        for one in waits:
            if one.missed:
                self.missed[f"language server: {one.name}"] = []
            text = f"{one.measured:.3g} {one.unit}"
            table.add_row(one.name, f"[bold red]{text} ![/]" if one.missed else text, f"{one.budget:g} {one.unit}")
        self._print(table)

    def branches(self, measured: list[Branches]) -> None:
        """Time by the number of branches, and how it grows when there are twice as many."""
        counts = [f"{count} branches, ms" for count in COUNTS]
        growth = f"{COUNTS[-1]} / {COUNTS[-2]}"
        table = self._table("branches under the mypy plugin, one function", "kind", *counts, growth, "bar")
        for row in measured:
            grown = row.seconds[-1] / row.seconds[-2]
            missed = grown > GROWTH_BAR
            if missed:
                self.missed[f"branches: {row.kind}"] = []
            cell = f"[bold red]{grown:.2f} ![/]" if missed else f"{grown:.2f}"
            table.add_row(row.kind, *(f"{1000 * one:.0f}" for one in row.seconds), cell, f"{GROWTH_BAR:.2f}")
        self._print(table)

    def growth(self, measured: list[Growth]) -> None:
        """Time by the length of a program, and how it grows when there is twice as much of it."""
        columns = (
            "numbers", "shortest, s", "twice, s", "4 times, s", "8 times, s", "growth", "bar", "run / mypy alone",
        )  # fmt: skip
        table = self._table("growth under the mypy plugin", "kind", *columns)
        for row in measured:
            missed = row.growth > GROWTH_OF_PROGRAMS_BAR
            if missed:
                self.missed[f"growth: {row.kind}"] = []
            table.add_row(
                row.kind, f"{row.counts[0]} to {row.counts[-1]}", *(f"{one:.2f}" for one in row.seconds),
                f"[bold red]{row.growth:.2f} ![/]" if missed else f"{row.growth:.2f}", f"{GROWTH_OF_PROGRAMS_BAR:.2f}",
                f"{row.ratio:.1f}",
            )  # fmt: skip
        self._print(table)

    def checking(self, checking: Checking) -> None:
        missed = checking.ratio.median > CHECKING_BAR
        if missed or checking.share > SHARE_BAR:
            self.missed["mypy plugin"] = []
        table = self._table("mypy, 200 functions with 1,000 operations", "program", "s", "plain / records", "bar")
        table.add_row("records, no plugin", f"{checking.records:.2f}", "", "")
        table.add_row(
            "plain batches, plugin", f"{checking.plain:.2f}", _own(checking.ratio, missed), f"{CHECKING_BAR:.2f}"
        )
        self._print(table)
        self.say(f"the plugin's own code takes {checking.share:.0%} of the run (bar: {SHARE_BAR:.0%})")

    def program_runs(self, measured: Sequence[ProgramRun]) -> None:
        title = "run of a program, s of CPU per 1,000 lines"
        table = self._table(title, "lines", "ast.parse", "check", "check / ast.parse", "bar, s")
        for row in measured:
            if row.taken > PROGRAM_BAR:
                self.missed["run of a program"] = []
            cells = (f"{row.floor:.3f}", f"{row.taken:.3f}", f"{row.taken / row.floor:.1f}", f"{PROGRAM_BAR:.1f}")
            table.add_row(f"{row.lines:,}", *cells)
        self._print(table)

    def summary(self) -> None:
        missed = [f"{name} ({', '.join(sets)})" if sets else name for name, sets in self.missed.items()]
        self.console.print()
        self.say(f"bars missed: {', '.join(missed) or 'none'}")

    def _table(self, title: str, *columns: str) -> Table:
        table = Table(title=title, box=box.MARKDOWN if self.plain else box.SIMPLE_HEAD)
        for position, column in enumerate(columns):
            table.add_column(column, justify="right" if position else "left", no_wrap=True)
        return table

    def _print(self, table: Table) -> None:
        """Print a table below its title as a heading, unless the page leaves it out."""
        title, table.title = str(table.title), None
        if self.markdown and title.startswith(tuple(LEFT_OUT)):
            return
        self.console.print(f"\n## {escape(title)}\n" if self.markdown else f"\n[bold]{escape(title)}[/]")
        if not self.plain:
            self.console.print(table)
            return
        with self.console.capture() as capture:  # the box draws blank lines above and below
            self.console.print(table)
        self.console.out(capture.get().strip(), highlight=False)


def _misses(row: Measured) -> bool:
    ratio, bar = row.ratios.get("typedbatch"), row.operation.bar
    return ratio is not None and bar is not None and ratio.median > bar


def _own_cell(row: Measured) -> str:
    if "typedbatch" in row.wrong:
        return "[bold red]WRONG[/]"
    return _own(row.ratios["typedbatch"], _misses(row))


def _own(ratio: Ratio, missed: bool) -> str:
    figure = f"{ratio.median:.2f} ±{ratio.spread:.2f}"
    return f"[bold red]! {figure}[/]" if missed else figure


def _peer_cell(row: Measured, name: str) -> str:
    if name in row.wrong:
        return "[dim]wrong[/]"
    ratio = row.ratios.get(name)
    if ratio is None:
        return "[dim]-[/]"
    figure = f"{ratio.median:.2f}" if ratio.median < 10 else f"{ratio.median:.0f}"
    ours = row.ratios.get("typedbatch")
    return f"[yellow]< {figure}[/]" if ours and ratio.median < AHEAD * ours.median else figure


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"
