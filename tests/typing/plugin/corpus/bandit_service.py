"""A contextual bandit behind a small service; requests are dicts, half of the code has no annotations."""

import json
import math
from collections import deque
from typing import Any

import numpy as np

from typedbatch import Batch, BatchRecord, SchemaError, validate


class Feedback(BatchRecord):
    context: np.ndarray
    arm: np.ndarray
    reward: np.ndarray


class LinUCB:
    def __init__(self, n_arms, dim, alpha=0.5):
        self.arms = [Batch(A=np.eye(dim), b=np.zeros(dim), pulls=0) for _ in range(n_arms)]
        self.alpha = alpha

    def scores(self, context):
        out = Batch(mean=np.zeros(len(self.arms)), width=np.zeros(len(self.arms)))
        for i, arm in enumerate(self.arms):
            inverse = np.linalg.inv(arm.A)
            out.mean[i] = context @ inverse @ arm.b
            #! misspelt-read: out.mean[i] = context @ inverse @ arm.B
            out.width[i] = self.alpha * math.sqrt(context @ inverse @ context)
            #! misspelt-read: out.widths[i] = self.alpha * math.sqrt(context @ inverse @ context)
        return out

    def choose(self, context):
        scores = self.scores(context)
        return int((scores["mean"] + scores["width"]).argmax())

    def learn(self, feedback: Feedback) -> int:
        for context, chosen, reward in zip(feedback.context, feedback.arm, feedback.reward, strict=True):
            arm = self.arms[int(chosen)]
            arm.A = arm.A + np.outer(context, context)
            arm.b = arm.b + reward * context
            arm.pulls += 1
        return len(feedback)


class Service:
    def __init__(self, model, flush_every=8):
        self.model = model
        self.pending: deque[Any] = deque()
        self.flush_every = flush_every
        self.metrics = Batch(requests=0, errors=0, reward=0.0)

    def handle(self, request):
        self.metrics.requests += 1
        payload = json.loads(request)
        kind = payload.pop("kind")
        if kind == "choose":
            return json.dumps({"arm": self.model.choose(np.array(payload["context"]))})
        if kind == "feedback":
            self.pending.append(Batch(payload))
            self.metrics.reward += payload["reward"]
            if len(self.pending) >= self.flush_every:
                return json.dumps({"learned": self.flush()})
            return json.dumps({"learned": 0})
        self.metrics.errors += 1
        #! misspelt-read: self.metrics.error += 1
        return json.dumps({"error": kind})

    def flush(self):
        rows = Batch.stack(list(self.pending))
        self.pending.clear()
        try:
            return self.model.learn(validate(rows, Feedback))
        except SchemaError:
            self.metrics.errors += len(rows)
            return 0

    def report(self):
        ratio = float(self.metrics.reward / max(1, int(self.metrics.requests)))
        #! misspelt-read: ratio = float(self.metrics.rewards / max(1, int(self.metrics.requests)))
        return f"{int(self.metrics.requests)} requests, {int(self.metrics.errors)} errors, {ratio:.4f}"


def main() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(3, 2))
    model = LinUCB(3, 2)
    service = Service(model)
    for _ in range(40):
        context = rng.normal(size=2)
        arm = json.loads(service.handle(json.dumps({"kind": "choose", "context": context.tolist()})))["arm"]
        reward = float(truth[arm] @ context)
        service.handle(json.dumps({"kind": "feedback", "context": context.tolist(), "arm": arm, "reward": reward}))
    service.handle(json.dumps({"kind": "ping"}))
    single = Feedback(context=np.ones((1, 2)), arm=np.array([0]), reward=np.ones(1))
    #! forgotten-field: single = Feedback(context=np.ones((1, 2)), arm=np.array([0]))
    print(service.report(), model.learn(single), [int(arm.pulls) for arm in model.arms])
    #! misspelt-read: print(service.report(), model.learn(single), [int(arm.count) for arm in model.arms])


if __name__ == "__main__":
    main()
