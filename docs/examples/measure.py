"""What Python alone makes of the mistakes: each is run, on batches without types, and so is what was meant.

Batches without types are what such code mostly has today: any field may be set, and nothing is checked. To get them,
``typedbatch`` is replaced, in a process of its own, by a module in which every record is an open ``Batch``.
``python docs/examples/measure.py`` prints what it finds as JSON.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import typedbatch
from typedbatch import Batch, BatchRecord

MISTAKES = Path(__file__).with_name("mistakes.py")
MARK = re.compile(r"^(?P<indent> *)(?P<source>.*?)  # mistake (?P<number>\d+): (?P<words>.*)$")
FIRST_STEP = ("obs", "act", "now", "rew", "fell")
RIGHT = re.compile(r"^ *# right: (?P<source>.*)$")


@dataclass(frozen=True)
class Mistake:
    """A marked line of ``mistakes.py``."""

    number: int
    line: int
    words: str
    source: str
    right: str
    function: str


@dataclass(frozen=True)
class Outcome:
    """What running a mistake came to.

    Attributes:
        number: of the mistake.
        error: the exception's class, or nothing if there was none.
        difference: how the result differs from what was meant; nothing if it does not, or if there was an error.
        transitions: how many had been collected by then.
        seconds: how long the run had taken by then.
    """

    number: int
    error: str
    difference: str
    transitions: int
    seconds: float


# ---- the marked lines -------------------------------------------------------------------------------------------


def read_mistakes(text: str) -> list[Mistake]:
    lines = text.splitlines()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    mistakes: list[Mistake] = []
    for number, line in enumerate(lines, start=1):
        mark = MARK.match(line)
        if mark:
            right = RIGHT.match(lines[number])
            assert right, f"line {number + 1} should say what was meant"
            name = next(f.name for f in functions if f.lineno <= number <= (f.end_lineno or 0))
            mistakes.append(Mistake(int(mark["number"]), number, mark["words"], mark["source"], right["source"], name))
    return mistakes


def put_right(text: str) -> str:
    """The same program with what was meant in place of every mistake."""
    lines = text.splitlines()
    for mistake in read_mistakes(text):
        indent = len(lines[mistake.line - 1]) - len(lines[mistake.line - 1].lstrip())
        lines[mistake.line - 1] = " " * indent + mistake.right
    return "\n".join(lines) + "\n"


# ---- batches without types ---------------------------------------------------------------------------------------


class Open(Batch):
    """Stands for every record: takes any field, and any type argument."""

    def __class_getitem__(cls, _arguments: object) -> type[Open]:
        return cls


def without_types() -> ModuleType:
    """``typedbatch`` as it would be if it checked nothing."""
    module = ModuleType("typedbatch")
    for name in typedbatch.__all__:
        value = getattr(typedbatch, name)
        is_record = isinstance(value, type) and issubclass(value, BatchRecord)
        setattr(module, name, Open if is_record else value)
    unchecked: dict[str, Callable[..., Any]] = {
        "checked": lambda function: function,
        "validate": lambda batch, _schema: batch,
        "extend": lambda batch, _into, **fields: Open(batch, **fields),
        "convert": lambda batch, _into: batch.to_torch(),
    }
    vars(module).update(unchecked)
    return module


# ---- running them -------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """A training run that notes what it has, and how far it was when it had it."""

    started: float = field(default_factory=time.perf_counter)
    transitions: int = 0
    has: dict[str, Any] = field(default_factory=dict)
    when: dict[str, tuple[int, float]] = field(default_factory=dict)

    def progress(self, transitions: int) -> None:
        self.transitions += transitions
        if transitions == self.transitions:
            self.reach(*FIRST_STEP)

    def reach(self, *names: str) -> None:
        self.when.update(dict.fromkeys(names, (self.transitions, time.perf_counter() - self.started)))

    def note(self, **things: Any) -> None:
        self.reach(*(name for name in things if name not in self.when))
        self.has.update(things)

    def copies(self, names: list[str]) -> dict[str, Any]:
        """Things to run a mistake with; copies, because some write into what they are given."""
        return {name: copy.deepcopy(self.has[name]) for name in names}


def train() -> Run:
    """The pipeline once, stage by stage, and all else that the mistakes are about."""
    import pipeline
    import torch

    run = Run()
    policy, value = pipeline.start()
    rollout = pipeline.collect(pipeline.make_envs(), policy, np.random.default_rng(0), run.progress)
    first = rollout[:: pipeline.N_STEPS]  # the first transition of every environment
    run.note(obs=first.obs, act=first.act, now=first.obs_next, rew=first.rew, fell=first.terminated)
    run.note(rollout=rollout, policy=policy)
    with_returns = pipeline.compute_returns(rollout, value)
    value = pipeline.fit_value(with_returns)
    run.note(with_returns=with_returns, value=value)
    with_advantages = pipeline.compute_advantages(with_returns, value)
    run.note(with_advantages=with_advantages, v_s=torch.from_numpy(with_advantages.v_s))
    run.note(robot=Batch(obs={"cam": np.ones((len(rollout), 8, 8)), "pos": rollout.obs}, info=Batch()))
    run.note(d4rl=as_d4rl(rollout))
    return run


def as_d4rl(rollout: Any) -> Batch:
    return Batch(
        observations=rollout.obs,
        actions=rollout.act,
        next_observations=rollout.obs_next,
        rewards=rollout.rew,
        terminals=rollout.terminated,
        timeouts=rollout.truncated,
    )


def outcome(mistake: Mistake, wrong: ModuleType, right: ModuleType, run: Run) -> Outcome:
    names = list(inspect.signature(getattr(wrong, mistake.function)).parameters)
    transitions, ready = max(run.when[name] for name in names)
    arguments, same_arguments = run.copies(names), run.copies(names)
    begun = time.perf_counter()
    try:
        result = getattr(wrong, mistake.function)(**arguments)
    except Exception as raised:  # noqa: BLE001  # whatever it is, it is the finding
        return Outcome(mistake.number, _builtin(raised), "", transitions, ready + time.perf_counter() - begun)
    seconds = ready + time.perf_counter() - begun
    meant = getattr(right, mistake.function)(**same_arguments)
    return Outcome(mistake.number, "", describe_difference(result, meant), transitions, seconds)


def _builtin(raised: Exception) -> str:
    """The name that Python people know it by: a MissingFieldError is an AttributeError."""
    return next(cls.__name__ for cls in type(raised).__mro__ if cls.__module__ == "builtins")


def describe_difference(result: Any, meant: Any) -> str:
    """How a result differs from the right one, in a few words; an empty string if it does not."""
    if isinstance(meant, Batch):
        return "; ".join(_batch_differences(result, meant))
    if type(result) is not type(meant):
        return f"{_kind(result)} instead of {_kind(meant)}"
    if np.ndim(meant) == 0:
        return "" if result == meant else f"{result:.4g} instead of {meant:.4g}"
    if result.shape != meant.shape:
        return f"shape {result.shape} instead of {meant.shape}"
    wrong = int(np.sum(result != meant))
    return f"{wrong:,} of {result.size:,} values are wrong" if wrong else ""


def _batch_differences(result: Batch, meant: Batch) -> Iterator[str]:
    for name in meant.get_keys():
        if name not in result:
            near = next((other for other in result.get_keys() if other not in meant), "")
            yield f"the result has no {name}" + (f" (but {near})" if near else "")
        elif difference := describe_difference(result[name], meant[name]):
            yield f"{name} is {difference}"


def _kind(value: Any) -> str:
    return {"ndarray": "an array", "Tensor": "a tensor"}.get(type(value).__name__, f"a {type(value).__name__}")


def load(name: str, source: str) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    exec(compile(source, name, "exec"), vars(module))
    return module


def main() -> None:
    sys.modules["typedbatch"] = without_types()
    text = MISTAKES.read_text()
    run = train()
    wrong, right = load("mistakes", text), load("mistakes_put_right", put_right(text))
    outcomes = [outcome(mistake, wrong, right, run) for mistake in read_mistakes(text)]
    print(json.dumps([asdict(one) for one in outcomes]))


if __name__ == "__main__":
    main()
