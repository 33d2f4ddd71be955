"""Record, fit, evaluate."""

import sys

import numpy as np

from typedbatch import Batch, stack

from robolab.dataset import FEATURES, build, folds
from robolab.sensors import Arm, record
from robolab.types import Labelled


def fit(train: Labelled, ridge: float) -> Batch:
    x, y = train.features, train.act
    #! old-name: x, y = train.obs, train.act
    w = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y)
    model = Batch(w=w, ridge=ridge)
    if ridge > 1:
        model.note = "heavy"
    return model


def evaluate(w: np.ndarray, test: Labelled) -> Batch:
    out = Batch(err=np.abs(test.features @ w - test.act))
    out.worst = out.err.max(1)
    return Batch(mean=out.err.mean(), worst=out.worst.max(), n=len(test))


def main(argv: list[str]) -> None:
    depth = "--depth" in argv
    runs = []
    for seed in range(3):
        demos, speeds = record(Arm(seed, with_depth=depth), 12)
        if depth:
            assert all(d.obs.vision.depth is not None for d in demos)
        print("run", seed, f"top speed {max(speeds):.2f}")
        runs.append(demos)
    data = build(runs, list(FEATURES))
    best: Batch | None = None
    for ridge in (0.1, 1.0, 10.0):
        scores = []
        for train, test in folds(data, 3):
            model = fit(train, ridge)
            scores.append(evaluate(model["w"], test))
            #! misspelt-item: scores.append(evaluate(model["weights"], test))
        table = stack(scores)
        total = Batch(ridge=ridge, mean=table.mean, worst=table.worst)
        total.mean_all = float(np.mean([s["mean"] for s in scores]))
        if best is None or total.mean_all < best.mean_all:
            best = total
    assert best is not None
    print("ridge", float(best.ridge), "error", round(float(best.mean_all), 3), best.worst.max() > 0)
    #! misspelt-read: print("ridge", float(best.ridge), "error", round(float(best.mean_err), 3), best.worst.max() > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
    main(["--depth"])
