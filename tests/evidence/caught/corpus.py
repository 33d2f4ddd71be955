"""The corpus: mistakes that every program makes in functions of the same names, and the right version of each.

A program is one idiom. A function ends its wrong line in ``# wrong``; the ``# right:`` comments below it say what
stands there in the right version. What an idiom cannot express is a comment ``# cannot: mistake: reason``.

The functions are in ``programs/template.txt``, filled in from ``WORDS``. ``programs/with_IDIOM.py`` has the rest of an
idiom's program, in three parts: declarations, functions that replace those of the template, and the end.
"""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

PROGRAMS = Path(__file__).parent / "programs"

IDIOMS = {
    "tianshou": "Tianshou, protocols and `cast`",
    "tensorclass": "TensorDict, `TensorClass`",
    "typedtensordict": "TensorDict, `TypedTensorDict`",
    "typedbatch": "typedbatch, protocols and records",
    "plain": "typedbatch, plain `Batch`, mypy with the plugin",
}

MISTAKES = {
    "misspelt_read": "misspelt field read",
    "old_gym_field": "gym's old field `done` read",
    "read_too_early": "field read that a later stage adds",
    "misspelt_key": 'misspelt key, `batch["reward"]`',
    "misspelt_nested": "misspelt nested field, `batch.obs.cma`",
    "optional_unchecked": "field that may be `None` used at once",
    "read_after_removal": "field read after `pop` removed it",
    "misspelt_write": "misspelt field written",
    "undeclared_write": "undeclared field written",
    "wrong_type_write": "number written where an array or tensor belongs",
    "wrong_dtype_write": "integers written where float32 belongs",
    "misspelt_keyword": "misspelt constructor keyword",
    "missing_field": "constructor without a field",
    "missing_own_field": "constructor without a field of the user's own",
    "swapped_positions": "fields given by position, two swapped",
    "one_row_short": "field given that is one row short",
    "too_early_argument": "rollout passed where returns are needed",
    "open_argument": "open container passed where a typed one is needed",
    "int_argument": "number passed for a batch",
    "own_field_lacks": "batch passed that lacks a field of the user's own",
    "arrays_for_tensors": "batch of arrays passed where tensors are needed",
    "tensors_for_arrays": "batch of tensors passed where arrays are needed",
    "array_field_for_torch": "array field passed to a function of tensors",
    "tensor_field_for_numpy": "tensor field passed to a function of arrays",
    "slice_then_misspelt": "misspelt read of a slice",
    "minibatch_then_misspelt": "misspelt read of a minibatch",
    "cat_then_misspelt": "misspelt read after `cat`",
    "stack_then_misspelt": "misspelt read after `stack`",
    "wrong_stage_returned": "result of an earlier stage returned",
    "new_field_forgotten": "next stage made without its new field",
    "new_field_misspelt": "next stage made with its new field misspelt",
}

_OF_TENSORDICT = {
    "Rollout": "Rollout", "Writable": "Rollout", "Returns": "WithReturns", "Step": "Rollout", "Goal": "GoalRollout",
    "Open": "TensorDict", "typed": "WithReturns.from_tensordict(loaded)", "values": "values", "Values": "Tensor",
    "x": "values", "X": "Tensor", "library": "torch", "step": "Rollout", "end": ", terminated=values, batch_size=[4])",
    "join": "Rollout.", "next": "WithReturns(**rollout", "size": ", batch_size=rollout.batch_size",
}  # fmt: skip
_OF_ARRAYS = {"Step": "Step", "Goal": "GoalStep", "Open": "Batch", "x": "array", "X": "Array", "library": "np"}

WORDS = {
    "tianshou": _OF_ARRAYS
    | {
        "Rollout": "RolloutBatchProtocol", "Writable": "RolloutBatchProtocol", "Returns": "BatchWithReturnsProtocol",
        "typed": "cast(BatchWithReturnsProtocol, loaded)", "values": "values", "Values": "Tensor",
        "step": "cast(Step, Batch", "goal": "cast(GoalStep, Batch", "end": "))", "join": "Batch.",
    },
    "tensorclass": _OF_TENSORDICT,
    "typedtensordict": _OF_TENSORDICT,
    "typedbatch": _OF_ARRAYS
    | {
        "Rollout": "RolloutBatchProtocol", "Writable": "RolloutBatch", "Returns": "BatchWithReturns",
        "typed": "validate(loaded, BatchWithReturnsProtocol)", "values": "array", "Values": "Array", "step": "Step",
        "goal": "GoalStep", "end": ")", "join": "", "next": "extend(rollout, BatchWithReturns", "size": "",
    },
    "plain": _OF_ARRAYS
    | {"typed": "validate(loaded, BatchWithReturnsProtocol)", "step": "Batch", "goal": "Batch", "end": ")"},
}  # fmt: skip
"""Text for each ``$word`` of the template, by idiom."""

RIGHT_AS_IT_STANDS = "open_batch_read_by_dot"
"""A function without a mistake, in some of the programs."""

_NAME = re.compile(r"^(?:def|# cannot:) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Corpus:
    """One idiom's program.

    Attributes:
        wrong: its source, with every mistake.
        right: its source, with every mistake put right.
        cannot: mistake -> why there is no such function.
    """

    wrong: str
    right: str
    cannot: dict[str, str]


def source_of(idiom: str) -> str:
    """Return the program of an idiom, with wrong and right lines."""
    declarations, replacing, end = (PROGRAMS / f"with_{idiom}.py").read_text(encoding="utf-8").split("# ----\n\n\n")
    own = {name: block for block in replacing.split("\n\n\n") for name in _NAME.findall(block)}
    blocks = (PROGRAMS / "template.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n\n\n")
    # one comment may stand for several functions
    chosen = dict.fromkeys(own.get("".join(_NAME.findall(block)), block) for block in blocks)
    middle = "\n\n\n".join(Template(block).substitute(WORDS[idiom]) for block in chosen)
    return f"{declarations}{middle}\n\n\n{end}"


def read(idiom: str, source: str) -> Corpus:
    """Return what is in the program of an idiom.

    Raises:
        ValueError: a mistake has neither a function nor a reason, or its function has no wrong line or no right one.
    """
    cannot = dict(re.findall(r"^# cannot: (\w+): (.+)$", source, re.MULTILINE))
    bodies = {name: source.splitlines()[span.start - 1 : span.stop - 1] for name, span in functions(source).items()}
    for mistake in MISTAKES:
        body = bodies.get(mistake, [])
        marks = sum(line.endswith("  # wrong") for line in body), any("# right: " in line for line in body)
        if marks != ((0, False) if mistake in cannot else (1, True)):
            raise ValueError(f"{idiom}: {mistake} is not one wrong line and the right one, or a reason")
    wrong = re.sub(r"^ *# right: .*\n", "", source, flags=re.MULTILINE)
    right = re.sub(r"^.*  # wrong\n", "", source, flags=re.MULTILINE).replace("# right: ", "")
    return Corpus(wrong, right, cannot)


def functions(source: str) -> dict[str, range]:
    """The lines of each function, to the next definition."""
    nodes = ast.parse(source).body
    ends = [*(node.lineno for node in nodes[1:]), len(source.splitlines()) + 1]
    return {
        node.name: range(node.lineno, end)
        for node, end in zip(nodes, ends, strict=True)
        if isinstance(node, ast.FunctionDef)
    }


def fingerprint() -> str:
    """Changes when a program or the list of mistakes does."""
    return hashlib.sha256("\n".join([*map(source_of, IDIOMS), repr(MISTAKES)]).encode()).hexdigest()[:12]
