"""Loops that carry a batch from one turn to the next: first turns are special, loops may not run, some end early."""

from __future__ import annotations

import numpy as np

from typedbatch import Batch


def power_iteration(matrix: np.ndarray, steps: int) -> Batch:
    state = Batch(vector=np.ones(len(matrix)) / np.sqrt(len(matrix)), residual=np.inf)
    for step in range(steps):
        previous = state.copy()
        product = matrix @ previous.vector
        state.value = float(np.linalg.norm(product))
        state.vector = product / state.value
        if step > 0:
            state.change = abs(state.value - previous.value)
            state.residual = state.change / abs(state.value)
        converged = state.residual < 1e-6
        #! misspelt-read: converged = state.residuals < 1e-6
        if converged:
            break
    else:
        state.warning = "not converged"
    return state


def running_average(stream: list[np.ndarray]) -> float:
    total = Batch(count=0)
    for i, values in enumerate(stream):
        if i == 0:
            total.sum = np.zeros_like(values)
        total.sum = total.sum + values
        total.count += 1
    average = total.sum / total.count if stream else np.zeros(1)
    #! misspelt-read: average = total.sum / total.counts if stream else np.zeros(1)
    return float(average.mean())


def line_search(theta: np.ndarray, grad: np.ndarray) -> Batch:
    best = Batch(theta=theta, loss=float(np.square(theta - 1).sum()))
    step, tries = 1.0, 0
    while tries < 8:
        trial = Batch(theta=theta - step * grad)
        trial.loss = float(np.square(trial.theta - 1).sum())
        if trial.loss < best.loss:
            trial.step = step
            best = trial
            break
        step, tries = step / 2, tries + 1
    else:
        best.step = 0.0
    best.tries = tries
    return best


def trpo(iterations: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    theta = np.zeros(3)
    last = None
    scores = []
    for iteration in range(iterations):
        obs = rng.normal(size=(30, 3))
        prob = 1 / (1 + np.exp(-obs @ theta))
        batch = Batch(obs=obs, prob=prob, act=(rng.random(30) < prob).astype(int))
        batch.rew = batch.obs[:, 1] * (2 * batch.act - 1)
        batch.adv = batch.rew - batch.rew.mean()
        #! old-name: batch.adv = batch.rew - batch.reward.mean()
        if last is not None:
            drift = float(np.abs(last.prob.mean() - batch.prob.mean()))
            #! misspelt-read: drift = float(np.abs(last.probs.mean() - batch.prob.mean()))
            batch.kl = drift
        gradient = -((batch.act - batch.prob) * batch.adv) @ batch.obs / len(batch.rew)
        #! misspelt-read: gradient = -((batch.act - batch.prob) * batch.advantage) @ batch.obs / len(batch.rew)
        found = line_search(theta, gradient)
        theta = found["theta"]
        #! misspelt-item: theta = found["thetas"]
        scores.append(float(batch.rew.mean()))
        if iteration > 0:
            scores[-1] -= batch.kl
        last = batch
    return scores


def first_hit(batches: list[Batch], threshold: float) -> int:
    for index, batch in enumerate(batches):
        batch.score = batch["rew"].max()
        hit = bool(batch.score > threshold)
        #! misspelt-read: hit = bool(batch.scores > threshold)
        if hit:
            found = index
            break
    else:
        found = -1
    return found


def main() -> None:
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    for steps in (1, 3, 100):
        state = power_iteration(matrix, steps)
        print(f"{float(state['value']):.4f} {'warning' in state}")
    print(running_average([np.ones(3), 2 * np.ones(3)]), running_average([]))
    print([round(score, 4) for score in trpo(4, 0)])
    streams = [Batch(rew=np.arange(3.0) + i) for i in range(4)]
    print(first_hit(streams, 3.5), first_hit(streams, 99.0))
    result = line_search(np.zeros(2), np.array([-1.0, -1.0]))
    print(int(result["tries"]), float(result["step"]), float(line_search(np.ones(2), np.ones(2))["step"]))


if __name__ == "__main__":
    main()
