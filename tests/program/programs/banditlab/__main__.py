"""Fit each policy on one log and judge it on another."""

import numpy as np

from typedbatch import Batch

from banditlab.data import make_log, merge, split
from banditlab.evaluate import bootstrap, ips
from banditlab.policies import POLICIES


def main():
    logs = [make_log(0), make_log(1, delayed=True)]
    print("delay", logs[1].delay.mean())
    everything = merge(*logs)
    train, test = split(everything)
    results = {}
    for name, make in POLICIES.items():
        policy = make(3, 2)
        for i, row in enumerate(train):
            policy.learn(row)
        est = ips(policy, test)
        ci = bootstrap(policy, test, 8, np.random.default_rng(0))
        results[name] = Batch(value=est.snips, low=ci.low, high=ci.high, matches=est.matches)
        if name == "greedy":
            print(policy.state.name, policy.state.pulls.tolist())
    for name, r in results.items():
        print(name, round(float(r.value), 3), "in", [round(float(r.low), 3), round(float(r.high), 3)], int(r.matches))
    best = max(results.values(), key=lambda r: r.value)
    best.chosen = True
    print(sum("chosen" in r for r in results.values()), train.is_train.all(), "is_train" in test)


if __name__ == "__main__":
    main()
