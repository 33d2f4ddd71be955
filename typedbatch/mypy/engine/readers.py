"""Readers of the functions of a file, for their summaries."""

from __future__ import annotations

from typing import Any

from mypy.nodes import FuncDef, MypyFile

from typedbatch._program.arrays.values import Value
from typedbatch.mypy.batches.content import Object, Ref
from typedbatch.mypy.batches.needs import Needs
from typedbatch.mypy.batches.summaries import Summaries
from typedbatch.mypy.engine.flow import Flow
from typedbatch.mypy.engine.known import Known
from typedbatch.mypy.engine.report import Report


def summaries_of(api: Any, tree: MypyFile) -> Summaries:
    """Return the summaries of the functions of a file."""

    def run(
        function: FuncDef, parameters: list[Object], contents: dict[Object, Any], needs: Needs
    ) -> tuple[Value, dict[Object, Any]] | None:
        known = Known({}, None, tuple, contents)
        for argument, parameter in zip(function.arguments, parameters, strict=True):
            known.put(argument.variable, Ref(frozenset({parameter})) if parameter in contents else None)
        report = Report(api)
        report.summaries, report.is_deaf = summaries, True
        flow = Flow(api, report, known, root=function)
        return flow.summed_up(function, needs)

    summaries = Summaries(tree.fullname, run)
    return summaries
