"""DAgger: an expert labels what the learner visits."""

import numpy as np

from typedbatch import Batch


class Expert:
    def act(self, obs):
        return (obs[..., 0] + 0.5 * obs[..., 1] > 0).astype(int)


class Learner:
    def __init__(self, lr=0.5):
        self.w = np.zeros(2)
        self.lr = lr
        self.history = []

    def act(self, obs, rng=None):
        p = 1 / (1 + np.exp(-obs @ self.w))
        return (p > 0.5).astype(int) if rng is None else (rng.random(p.shape) < p).astype(int)

    def fit(self, dataset, epochs=3):
        for _ in range(epochs):
            for mb in dataset.split(32):
                p = 1 / (1 + np.exp(-mb.obs @ self.w))
                self.w += self.lr * (mb.expert_act - p) @ mb.obs / len(mb)
        result = Batch(acc=(self.act(dataset.obs) == dataset.expert_act).mean(), size=len(dataset))
        result.norm = np.linalg.norm(self.w)
        self.history.append(result)
        return result


def visit(policy, rng, n, beta=0.0, expert=None):
    obs = rng.normal(size=(1, 2))
    rows = []
    for _ in range(n):
        use_expert = expert is not None and rng.random() < beta
        act = expert.act(obs) if use_expert else policy.act(obs, rng)
        row = Batch(obs=obs[0], act=act[0])
        row.by_expert = use_expert
        rows.append(row)
        obs = 0.9 * obs + 0.3 * (2 * act[:, None] - 1) + 0.3 * rng.normal(size=(1, 2))
    visited = Batch.stack(rows)
    return visited


def label(visited, expert):
    labelled = Batch(obs=visited.obs, act=visited.act)
    #! missing-field: labelled = Batch(obs=visited.obs)
    labelled.expert_act = expert.act(labelled.obs)
    #! misspelt-read: labelled.expert_act = expert.act(labelled.observations)
    labelled.agree = labelled.expert_act == labelled.act
    #! misspelt-read: labelled.agree = labelled.expert_action == labelled.act
    return labelled


def main():
    np.random.seed(2)
    rng = np.random.default_rng(2)
    expert, learner = Expert(), Learner()
    pool = []
    for i in range(4):
        visited = visit(learner, rng, 40, beta=0.5**i, expert=expert)
        labelled = Batch(label(visited, expert))
        pool.append(labelled)
        dataset = Batch.cat(pool)
        stats = learner.fit(dataset)
        line = Batch(i=i, acc=float(stats.acc), agree=labelled["agree"].mean())
        #! missing-field: line = Batch(i=i, acc=float(stats.acc))
        line.experts = visited.by_expert.mean()
        print(f"{int(line.i)} acc {float(line.acc):.3f} agree {float(line.agree):.3f} by expert {float(line.experts):.2f}")
        #! misspelt-read: print(f"{int(line.i)} acc {float(line.accuracy):.3f} agree {float(line.agree):.3f} by expert {float(line.experts):.2f}")
    summary = Batch(acc=[float(h.acc) for h in learner.history])
    #! misspelt-keyword: summary = Batch(accs=[float(h.acc) for h in learner.history])
    summary.best = summary.acc.argmax()
    print(int(summary.best), [round(a, 3) for a in summary.acc.tolist()])
    #! misspelt-read: print(int(summary.best), [round(a, 3) for a in summary.accs.tolist()])


if __name__ == "__main__":
    main()
