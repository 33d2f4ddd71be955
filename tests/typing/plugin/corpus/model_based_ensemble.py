"""Model-based control: an ensemble of linear models, imagined rollouts, random shooting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from typedbatch import Batch, cat, stack


def real_step(state: np.ndarray, action: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drift = np.array([[1.0, 0.1], [0.0, 0.95]])
    moved: np.ndarray = state @ drift.T + action[..., None] * np.array([0.0, 0.2]) + 0.01 * rng.normal(size=state.shape)
    return moved


def gather(rng: np.random.Generator, n: int) -> Batch:
    state = rng.normal(size=(n, 2))
    action = rng.uniform(-1, 1, size=n)
    return Batch(state=state, action=action, next_state=real_step(state, action, rng))


class Model:
    def __init__(self, ridge: float) -> None:
        self.ridge = ridge
        self.params = Batch(theta=np.zeros((3, 2)))
        self.params.sigma = np.ones(2)

    def fit(self, data: Batch) -> None:
        x = np.column_stack([data["state"], data["action"]])
        y = data["next_state"] - data["state"]
        #! misspelt-item: y = data["state_next"] - data["state"]
        self.params.theta = np.linalg.solve(x.T @ x + self.ridge * np.eye(3), x.T @ y)
        residual = y - x @ self.params.theta
        #! misspelt-read: residual = y - x @ self.params.thetas
        self.params.sigma = residual.std(0)

    def predict(self, state: np.ndarray, action: np.ndarray) -> Batch:
        delta = np.column_stack([state, action]) @ self.params.theta
        return Batch(next_state=state + delta, sigma=np.broadcast_to(self.params.sigma, state.shape))
        #! misspelt-read: return Batch(next_state=state + delta, sigma=np.broadcast_to(self.params.std, state.shape))


def imagine(models: Sequence[Model], start: np.ndarray, plans: np.ndarray) -> Batch:
    """Plans are (P, H); the result has a row per plan."""
    state = np.repeat(start[None], len(plans), axis=0)
    frames = []
    for t in range(plans.shape[1]):
        votes = stack([model.predict(state, plans[:, t]) for model in models])
        frame = Batch(state=state, action=plans[:, t])
        frame.next_state = votes["next_state"].mean(0)
        frame.disagreement = votes["next_state"].std(0).sum(-1)
        frame.cost = (frame.next_state**2).sum(-1) + 0.1 * frame.disagreement
        #! misspelt-read: frame.cost = (frame.next_states**2).sum(-1) + 0.1 * frame.disagreement
        frames.append(frame)
        state = frame.next_state
    return stack(frames, axis=1)


def plan(models: Sequence[Model], start: np.ndarray, rng: np.random.Generator) -> float:
    plans = rng.uniform(-1, 1, size=(64, 5))
    dream = imagine(models, start, plans)
    dream.total = dream["cost"].sum(axis=1)
    best = int(dream.total.argmin())
    #! misspelt-read: best = int(dream.totals.argmin())
    return float(plans[best, 0])


def main() -> None:
    rng = np.random.default_rng(4)
    data = gather(rng, 50)
    models = [Model(ridge) for ridge in (0.01, 0.1, 1.0)]
    state = np.array([1.5, 0.0])
    for step in range(12):
        if step % 4 == 0:
            for model in models:
                model.fit(data)
        action = plan(models, state, rng)
        after = real_step(state[None], np.array([action]), rng)
        new = Batch(state=state[None], action=np.array([action]), next_state=after)
        #! missing-field: new = Batch(state=state[None], action=np.array([action]))
        data = cat([data, new])
        #! wrong-type: data = cat([data, after])
        state = after[0]
    print(np.round(state, 4).tolist(), len(data), [round(float(m.params.sigma.mean()), 4) for m in models])


if __name__ == "__main__":
    main()
