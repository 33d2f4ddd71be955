"""Policy gradient with every option behind a flag."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from typedbatch import Batch


@dataclass(frozen=True)
class Config:
    use_gae: bool = False
    use_baseline: bool = False
    use_entropy: bool = False
    clip: float | None = None
    normalise: bool = False
    n_epochs: int = 2


def sigmoid(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-x))
    return result


def discounted(rew: np.ndarray, gamma: float) -> np.ndarray:
    out = np.zeros_like(rew)
    running = 0.0
    for t in reversed(range(len(rew))):
        running = rew[t] + gamma * running
        out[t] = running
    return out


def run(cfg: Config, rng: np.random.Generator) -> dict[str, float]:
    weights = np.zeros(3)
    report: dict[str, float] = {}
    for epoch in range(cfg.n_epochs):
        obs = rng.normal(size=(32, 3))
        act = (rng.random(32) < sigmoid(obs @ weights)).astype(int)
        batch = Batch(obs=obs, act=act, rew=obs[:, 0] * (2 * act - 1))
        #! missing-field: batch = Batch(obs=obs, rew=obs[:, 0] * (2 * act - 1))
        batch.returns = discounted(batch.rew, 0.9)
        #! old-name: batch.returns = discounted(batch.reward, 0.9)

        if cfg.use_baseline:
            fit = np.linalg.lstsq(batch.obs, batch.returns, rcond=None)[0]
            batch.v_s = batch.obs @ fit
        if cfg.use_gae and cfg.use_baseline:
            delta = batch.rew + 0.9 * np.append(batch.v_s[1:], 0.0) - batch.v_s
            #! misspelt-read: delta = batch.rew + 0.9 * np.append(batch.v_s[1:], 0.0) - batch.vs
            batch.adv = discounted(delta, 0.9 * 0.95)
        elif cfg.use_baseline:
            batch.adv = batch.returns - batch.v_s
        else:
            batch.adv = batch.returns
        if cfg.normalise:
            batch.adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
            #! misspelt-read: batch.adv = (batch.adv - batch.advs.mean()) / (batch.adv.std() + 1e-8)

        prob = sigmoid(batch.obs @ weights)
        if cfg.clip is not None:
            batch.prob_old = prob
        if cfg.use_entropy:
            batch.entropy = -(prob * np.log(prob) + (1 - prob) * np.log(1 - prob))

        score = (batch.act - prob) * batch.adv
        if cfg.clip is not None:
            ratio = prob / batch.prob_old
            #! misspelt-read: ratio = prob / batch.old_prob
            score = np.where(np.abs(ratio - 1) < cfg.clip, score, 0.0)
        gradient = score @ batch.obs / len(batch)
        if cfg.use_entropy:
            report["entropy"] = float(batch.entropy.mean())
        weights = weights + 0.1 * gradient
        if not cfg.use_baseline:
            report["return"] = float(batch.returns.mean())
        report["explained"] = 1 - float(np.var(batch.returns - batch.v_s)) if cfg.use_baseline else 0.0
        #! branch-field: report["explained"] = 1 - float(np.var(batch.returns - batch.v_s))
        report["adv"] = float(batch.adv.mean())
        #! branch-field: report["adv"] = float(batch.adv.mean() + batch.entropy.mean())
    return report


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv or [])
    configs = [
        Config(),
        Config(use_baseline=True),
        Config(use_baseline=True, use_gae=True, normalise=True),
        Config(use_entropy=True, clip=0.2),
    ]
    for cfg in configs:
        print({name: round(value, 4) for name, value in run(cfg, np.random.default_rng(args.seed)).items()})


if __name__ == "__main__":
    main()
