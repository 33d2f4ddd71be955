"""Offline contextual bandit: cross-fitted reward models by fresh LBFGS optimizers, then a step on the doubly robust value."""
from functools import partial
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from typedbatch import Batch

ARMS, FEATURES, MAX_WEIGHT = 4, 5, 20.0

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(FEATURES, ARMS))
    policy = nn.Linear(FEATURES, ARMS)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.5, momentum=0.9)

    def draw(n=400):
        context = rng.normal(size=(n, FEATURES)).astype(np.float32)
        logits = 0.5 * context @ truth
        behaviour = 0.8 * np.exp(logits) / np.exp(logits).sum(1, keepdims=True) + 0.2 / ARMS  # the logging policy, which explores
        arm = np.array([rng.choice(ARMS, p=p) for p in behaviour])
        payoff = (context @ truth)[np.arange(n), arm] + rng.normal(0, 0.5, n)
        return (Batch(context=context, arm=arm, propensity=behaviour[np.arange(n), arm].astype(np.float32), payoff=payoff.astype(np.float32)),)

    def fit(context, arm, payoff):
        model = nn.Linear(FEATURES, ARMS)
        nn.init.zeros_(model.weight)
        lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=10, line_search_fn="strong_wolfe")

        def closure():
            lbfgs.zero_grad()
            loss = F.mse_loss(model(context).gather(1, arm[:, None]).squeeze(1), payoff) + 1e-3 * model.weight.square().sum()
            loss.backward()
            return loss

        lbfgs.step(closure)
        return model.requires_grad_(False)

    def value(q, context, arm, payoff, propensity):
        """Doubly robust: what the model expects of the policy, and weighted errors of the model at the logged arms."""
        pi = policy(context).softmax(-1)
        q_all = q(context)
        weight = (pi.gather(1, arm[:, None]).squeeze(1) / propensity).clamp(max=MAX_WEIGHT)
        return (pi * q_all).sum(-1) + weight * (payoff - q_all.gather(1, arm[:, None]).squeeze(1))

    def update(logged):
        columns = [torch.as_tensor(logged[name]) for name in ("context", "arm", "payoff", "propensity")]
        halves = [[c[i::2] for c in columns] for i in (0, 1)]
        models = [fit(*half[:3]) for half in halves]
        values = torch.cat([partial(value, models[1 - i])(*half) for i, half in enumerate(halves)])  # never the model of the same rows
        entropy = torch.distributions.Categorical(logits=policy(columns[0])).entropy().mean()
        loss = -values.mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"value": values.mean().item(), "entropy": entropy.item()}

    return update, draw
