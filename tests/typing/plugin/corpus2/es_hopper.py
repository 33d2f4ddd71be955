"""Evolution strategies with mirrored sampling: the population is a list of Batches."""

import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce, wraps
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, cat, stack

Floats = NDArray[np.float64]
R = TypeVar("R")
CFG = Batch(sigma=0.2, lr=0.3, members=8, ranks=True)


def counted(fn: Callable[..., R]) -> Callable[..., R]:
    calls = Batch(n=0, name=fn.__name__)

    @wraps(fn)
    def inner(*a: Any, **k: Any) -> R:
        calls.n += 1
        if calls.n % 50 == 0:
            print(calls.name, "called", int(calls.n))
        return fn(*a, **k)

    return inner


@counted
def evaluate(theta: Floats, horizon: int = 12) -> Batch:
    x, total = np.array([1.0, 0.0]), 0.0
    trace = []
    for t in range(horizon):
        u = float(np.tanh(theta @ x))
        x = np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u])
        now = Batch(x=x, u=u, cost=x @ x + 0.01 * u * u)
        total -= float(now.cost)
        #! misspelt-read: total -= float(now.costs)
        trace.append(now)
    whole = stack(trace)
    return Batch(fitness=total, effort=np.abs(whole.u).mean(), path=whole.x)


def ask(center: Floats, rng: np.random.Generator) -> list[Batch]:
    half = int(CFG.members) // 2
    eps = rng.normal(size=(half, len(center)))
    members = [Batch(eps=e, sign=1) for e in eps] + [Batch(eps=e, sign=-1) for e in eps]
    for k, m in enumerate(members):
        m.theta = center + float(CFG.sigma) * m.sign * m.eps
        #! misspelt-read: m.theta = center + float(CFG.sigma) * m.sign * m.epsilon
        m.id = k
    return members


def centered_ranks(values: Floats) -> Floats:
    ranks = np.empty(len(values))
    ranks[values.argsort()] = np.arange(len(values))
    return ranks / (len(values) - 1) - 0.5


def tell(center: Floats, members: list[Batch]) -> tuple[Floats, Batch]:
    pop = Batch.stack([Batch(eps=m.eps, sign=m.sign, fitness=m.fitness) for m in members])
    if CFG.ranks:
        pop.score = centered_ranks(pop.fitness)
    else:
        pop.score = (pop.fitness - pop.fitness.mean()) / (pop.fitness.std() + 1e-8)
    grad = (pop.score * pop.sign) @ pop.eps / (len(pop) * float(CFG.sigma))
    #! wrong-argument: grad = (pop.score * pop.sign) @ pop / (len(pop) * float(CFG.sigma))
    info = Batch(grad_norm=np.linalg.norm(grad), mean=pop.fitness.mean(), best=pop.fitness.max())
    return center + float(CFG.lr) * grad, info


def elite(members: list[Batch], n: int) -> list[Batch]:
    return sorted(members, key=lambda m: m.fitness, reverse=True)[:n]
    #! misspelt-read: return sorted(members, key=lambda m: m.fitnes, reverse=True)[:n]


def main() -> None:
    rng = np.random.default_rng(0)
    center = np.zeros(2)
    archive: list[Batch] = []
    history: list[Batch] = []
    hall_of_fame: dict[int, Batch] = {}
    with ThreadPoolExecutor(2) as pool:
        for gen in range(6):
            members = ask(center, rng)
            results = list(pool.map(partial(evaluate, horizon=10 + gen), [m["theta"] for m in members]))
            for m, r in zip(members, results, strict=True):
                m.fitness = r["fitness"]
                #! old-name: m.fitness = r["reward"]
                m.update(effort=r["effort"], final=r["path"][-1])
            center, info = tell(center, members)
            info["gen"] = gen
            if gen == 0:
                info.baseline = info["mean"]
            history.append(info)
            top = elite(members, 2)
            hall_of_fame[gen] = top[0]
            archive.extend(top)
    best = reduce(lambda a, b: a if a.fitness > b.fitness else b, archive)
    print("best", float(best.fitness), "effort", float(best.effort), "id", int(best.id))
    #! misspelt-read: print("best", float(best.fitness), "effort", float(best.efforts), "id", int(best.id))
    running = list(accumulate((float(h["best"]) for h in history), max))
    base = history[0].baseline
    print("from", float(base), "to", running[-1])
    #! branch-field: print("from", float(history[1].baseline), "to", running[-1])
    table = stack([h for h in history if "baseline" not in h])
    table.improvement = table["best"] - table["best"][0]
    print("norms", np.round(table["grad_norm"], 2), table.improvement.max())
    everyone = stack(list(chain(hall_of_fame.values(), archive)))
    order = everyone.fitness.argsort()
    #! misspelt-read: order = everyone.score.argsort()
    ranked = everyone[order]
    spread = ranked.theta[-1] - ranked.theta[0]
    ids = list(map(operator.itemgetter("id"), archive))
    total = reduce(operator.add, (b["effort"] for b in archive))
    both = cat([ranked[:2], ranked[-2:]])
    print(spread.round(2), ids[:3], float(total), both.theta.shape)
    del both.theta
    print(both.final.mean(axis=0), "theta" in both)
    #! removed-field: print(both.final.mean(axis=0), both.theta.mean(axis=0))


if __name__ == "__main__":
    main()
