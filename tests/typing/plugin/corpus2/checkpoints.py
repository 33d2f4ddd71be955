"""Training state as one Batch: saved, loaded, migrated from older versions, merged with overrides from a command line."""

import argparse
import copy
import io
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from typedbatch import Batch, BatchRecord, validate

DEFAULTS = {"lr": 0.1, "momentum": 0.9, "steps": 12, "save_every": 4, "ema": 0.0}


class State(BatchRecord):
    step: int
    w: torch.Tensor
    velocity: torch.Tensor


def merge(*parts: "dict[str, Any] | Batch") -> Batch:
    cfg = Batch(DEFAULTS)
    for part in parts:
        for k, v in part.items():
            if k not in cfg:
                raise KeyError(k)
            cfg[k] = v
    cfg.lr = float(cfg.lr)
    #! misspelt-read: cfg.lr = float(cfg.learning_rate)
    return cfg


def fresh(cfg: Batch, seed: int) -> Batch:
    g = torch.Generator().manual_seed(seed)
    state = Batch(step=0, w=torch.randn(4, generator=g), seed=seed)
    state.velocity = torch.zeros_like(state.w)
    #! misspelt-read: state.velocity = torch.zeros_like(state.weights)
    if cfg["ema"] > 0:
        state.ema = state.w.clone()
    state.rng = np.random.default_rng(seed).integers(0, 2**31, 1)
    return state


def migrate(raw: Batch) -> Batch:
    version = int(raw.pop("version", 0))
    if version < 1:
        raw["velocity"] = raw.pop("momentum_buffer")
    if version < 2:
        raw["step"] = raw.pop("iteration")
    raw.version = 2
    return raw


@contextmanager
def timed(metrics: Batch, name: str) -> Iterator[None]:
    metrics[name] = metrics.get(name, 0) + 1
    try:
        yield
    finally:
        metrics[name + "_done"] = True


class Runner:
    VERSION: ClassVar[int] = 2

    def __init__(self, cfg: Batch, folder: Path) -> None:
        self.cfg = cfg
        self.folder = folder
        self.state = fresh(cfg, 0)
        self.metrics = Batch(loss=np.zeros(0), saves=0)
        self.best: Batch | None = None

    def train_step(self) -> float:
        x = torch.linspace(-1, 1, 8)[:, None] ** torch.arange(4)
        err = x @ self.state.w - torch.sin(x[:, 1])
        grad = 2 * x.T @ err / len(x)
        self.state.velocity = float(self.cfg["momentum"]) * self.state.velocity - float(self.cfg["lr"]) * grad
        #! misspelt-read: self.state.velocity = float(self.cfg["momentum"]) * self.state.velocty - float(self.cfg["lr"]) * grad
        self.state.w = self.state.w + self.state.velocity
        self.state.step += 1
        if self.cfg["ema"] > 0:
            k = float(self.cfg["ema"])
            self.state.ema = k * self.state.ema + (1 - k) * self.state.w
        return float((err**2).mean())

    def save(self) -> Path:
        path = self.folder / f"{int(self.state.step):04d}.pkl"
        out = Batch(self.state, version=self.VERSION)
        out.metrics = Batch(self.metrics)
        path.write_bytes(pickle.dumps(out))
        self.metrics.saves += 1
        return path

    def load(self, path: Path) -> None:
        got: Batch = pickle.loads(path.read_bytes())
        self.metrics = got.pop("metrics")
        self.state = migrate(got)
        assert self.state.step > 0

    def run(self) -> list[Path]:
        paths = []
        for _ in range(int(self.cfg["steps"])):
            with timed(self.metrics, "train"):
                loss = self.train_step()
            self.metrics.loss = np.append(self.metrics.loss, loss)
            if self.best is None or loss < self.best.loss:
                self.best = Batch(loss=loss, w=self.state.w.clone(), at=int(self.state.step))
                #! misspelt-keyword: self.best = Batch(losses=loss, w=self.state.w.clone(), at=int(self.state.step))
            if self.state.step % int(self.cfg["save_every"]) == 0:
                paths.append(self.save())
        return paths


def old_file() -> bytes:
    old = Batch(w=torch.ones(4), momentum_buffer=torch.zeros(4), iteration=7, rng=np.array([1]))
    buf = io.BytesIO()
    pickle.dump(old, buf)
    return buf.getvalue()


def main() -> None:
    p = argparse.ArgumentParser()
    for name, value in DEFAULTS.items():
        p.add_argument(f"--{name}", type=type(value), default=argparse.SUPPRESS)
    args = p.parse_args(["--lr", "0.05", "--ema", "0.9"])
    cfg = merge({"steps": 10}, vars(args))
    with tempfile.TemporaryDirectory() as tmp:
        runner = Runner(cfg, Path(tmp))
        paths = runner.run()
        again = Runner(copy.deepcopy(cfg), Path(tmp))
        again.load(paths[0])
        print("resumed at", int(again.state.step), "of", len(again.metrics.loss))
        #! misspelt-read: print("resumed at", int(again.state.steps), "of", len(again.metrics.loss))
        first = validate(again.state, State)
        print(first.w.shape, first.velocity.norm() > 0)
        #! old-name: print(first.w.shape, first.momentum_buffer.norm() > 0)
    old = migrate(pickle.loads(old_file()))
    with suppress(KeyError):
        validate(old, State)
    print("migrated", sorted(old.keys()), int(old["step"]))
    #! removed-field: print("migrated", sorted(old.keys()), int(old["iteration"]))
    assert runner.best is not None
    print("best", float(runner.best.loss), "at", int(runner.best.at), "ema", runner.state.ema.round(decimals=2))
    no_ema = Runner(merge({"ema": 0.0, "steps": 4}), Path(tmp))
    no_ema.state.tag = "no ema"
    print(no_ema.state.tag, float(no_ema.train_step()), no_ema.state.w.shape)
    #! branch-field: print(no_ema.state.tag, float(no_ema.train_step()), no_ema.state.ema.shape)
    print("saves", int(runner.metrics.saves), bool(runner.metrics["train_done"]))


if __name__ == "__main__":
    main()
