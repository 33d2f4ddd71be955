"""A curriculum that is a generator: it is sent results and yields the next task as a Batch."""

from __future__ import annotations

import enum
from collections.abc import Generator
from typing import Callable

import numpy as np

from typedbatch import Batch, cat, stack


class Phase(enum.Enum):
    WARMUP = "warmup"
    RAMP = "ramp"
    FINAL = "final"


VERBOSE = True
totals = Batch(tasks=0, steps=0, solved=0)


def make_task(level: float, phase: Phase) -> Batch:
    task = Batch(level=level, limit=10)
    match phase:
        case Phase.WARMUP:
            task.hint = 0.5
        case Phase.RAMP:
            task.slope = 0.1 * level
            task.limit = 15
        case Phase.FINAL:
            task.limit = 20
    task.name = phase.value
    return task


def scheduler(levels: int) -> Generator[Batch, Batch, Batch]:
    level, phase = 0.0, Phase.WARMUP
    seen: list[Batch] = []
    for _ in range(levels):
        task = make_task(level, phase)
        result = yield task
        seen.append(Batch(level=level, rate=result["rate"], steps=result["steps"]))
        #! misspelt-item: seen.append(Batch(level=level, rate=result["rate"], steps=result["step"]))
        if result["rate"] > 0.5:
            level += 0.5
        if len(seen) >= 2:
            phase = Phase.RAMP if level < 1.5 else Phase.FINAL
    summary = stack(seen)
    summary.best = np.maximum.accumulate(summary.rate)
    #! misspelt-read: summary.best = np.maximum.accumulate(summary.rates)
    return summary


def attempt(task: Batch, skill: float, rng: np.random.Generator) -> Batch:
    x = 0.0
    path: list[Batch] = []
    limit = int(task["limit"])
    while (t := len(path)) < limit:
        push = skill + rng.normal(0, 0.1)
        if "hint" in task:
            push += float(task["hint"]) * 0.1
        x += push - 0.02 * float(task["level"])
        #! misspelt-item: x += push - 0.02 * float(task["difficulty"])
        point = Batch(x=x, t=t)
        point.up = bool(push > 0)
        path.append(point)
        if point.x > 1:
            point.goal = True
            break
    run = stack(path)
    run.gain = np.diff(run.x, prepend=0.0)
    out = Batch(steps=len(run), reached=bool(run.x[-1] > 1), ups=int(run.up.sum()))
    #! misspelt-read: out = Batch(steps=len(run), reached=bool(run.x[-1] > 1), ups=int(run.ups.sum()))
    out.mean_gain = float(run.gain.mean())
    return out


def practise(task: Batch, skill: float, rng: np.random.Generator, tries: int = 5) -> Batch:
    runs = [attempt(task, skill, rng) for _ in range(tries)]
    table = stack(runs)
    result = Batch(rate=float(table.reached.mean()), steps=int(table.steps.sum()))
    #! old-name: result = Batch(rate=float(table.success.mean()), steps=int(table.steps.sum()))
    if any(r.reached for r in runs):
        result.fastest = int(table.steps[table.reached].min())
    if all(r.reached for r in runs):
        result.perfect = True
    totals.tasks += 1
    totals.steps += result.steps
    totals.solved += int(table.reached.sum())
    return result


def run(learn: Callable[[float, Batch], float]) -> Batch:
    rng = np.random.default_rng(2)
    skill = 0.05
    gen = scheduler(6)
    task = next(gen)
    log: list[Batch] = []
    try:
        while True:
            result = practise(task, skill, rng)
            skill = learn(skill, result)
            entry = Batch(level=task["level"], rate=result["rate"], skill=skill)
            if task["name"] == "ramp":
                entry.slope = task["slope"]
                #! branch-field: entry.slope = task["hint"]
            if VERBOSE and "fastest" in result:
                entry.fastest = result["fastest"]
            log.append(entry)
            task = gen.send(result)
    except StopIteration as stop:
        report: Batch = stop.value
    finally:
        gen.close()
    for k, e in enumerate(log):
        e.index = k
        extra = f" slope {e.slope:.2f}" if "slope" in e else ""
        print(int(e.index), f"level {e.level:.1f} rate {e.rate:.1f} skill {e.skill:.2f}{extra}")
        #! misspelt-read: print(int(e.index), f"level {e.lvl:.1f} rate {e.rate:.1f} skill {e.skill:.2f}{extra}")
    report.done = True
    report.final = log[-1].skill
    return report


def main() -> None:
    def quick(skill: float, result: Batch) -> float:
        return skill + 0.05

    def careful(skill: float, result: Batch) -> float:
        return skill + (0.1 if result["rate"] < 0.5 else 0.01)

    first, second = run(quick), run(careful)
    for r in (first, second):
        r.pop("done")
        r.pop("final")
    joint: Batch = cat([first, second])
    joint.gap = joint["best"] - joint["rate"]
    print("gap", joint.gap.mean().round(3), "rows", len(joint))
    #! batch-for-array: print("gap", joint.gap.mean().round(3), "rows", joint.tolist())
    print(int(totals.tasks), int(totals.steps), int(totals.solved))
    #! misspelt-read: print(int(totals.tasks), int(totals.steps), int(totals.solve))


if __name__ == "__main__":
    main()
