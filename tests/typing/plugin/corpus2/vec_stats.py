"""Vectorised environment loop with episode statistics, running normalisation and a small metrics logger (no types)."""

import collections
import functools

import numpy as np

from typedbatch import Batch, cat, stack
from typedbatch.episodes import episode_lengths

metrics: collections.defaultdict[str, list[float]] = collections.defaultdict(list)
running: Batch | None = None


class VecEnv:
    def __init__(self, n, seed=0):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.state = Batch(x=np.zeros(n), t=np.zeros(n, int), goal=self.rng.normal(size=n))

    def step(self, act):
        s = self.state
        s.x = s.x + 0.3 * np.sign(act)
        s.t = s.t + 1
        dist = np.abs(s.x - s.goal)
        out = Batch(obs=np.stack([s.x, s.goal], 1), rew=-dist, terminated=dist < 0.2, truncated=s.t >= 12)
        ended = out.terminated | out.truncated
        if ended.any():
            out.final = np.where(ended[:, None], out.obs, 0)
            s.x[ended], s.t[ended] = 0, 0
            s.goal[ended] = self.rng.normal(size=int(ended.sum()))
        out.ended = ended
        return out


class Welford:
    def __init__(self, size):
        self.s = Batch(mean=np.zeros(size), var=np.ones(size), count=1e-4)

    def update(self, x):
        s = self.s
        total = s.count + len(x)
        delta = x.mean(0) - s.mean
        s.mean = s.mean + delta * len(x) / total
        s.var = (s.var * s.count + x.var(0) * len(x) + delta**2 * s.count * len(x) / total) / total
        #! misspelt-read: s.var = (s.var * s.count + x.var(0) * len(x) + delta**2 * s.n * len(x) / total) / total
        s.count = total

    def __call__(self, x):
        return (x - self.s.mean) / np.sqrt(self.s.var + 1e-8)
        #! misspelt-read: return (x - self.s.mean) / np.sqrt(self.s.variance + 1e-8)


def track(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        out = fn(*args, **kwargs)
        for k, v in out.items():
            metrics[k].append(float(np.mean(v)))
        return out

    return inner


@track
def iteration(env, norm, gain, steps=20):
    rows, episodes = [], []
    acc = Batch(ret=np.zeros(env.n), len=np.zeros(env.n, int))
    obs = np.stack([env.state.x, env.state.goal], 1)
    for t in range(steps):
        norm.update(obs)
        act = (obs[:, 1] - obs[:, 0]) * gain + env.rng.normal(0, 0.1, env.n)
        got = env.step(act)
        row = Batch(obs=obs, act=act, rew=got.rew, terminated=got.terminated, truncated=got.truncated)
        row.norm_obs = norm(obs)
        acc.ret += got.rew
        #! old-name: acc.ret += got.reward
        acc.len += 1
        if t == 0:
            row.first = np.ones(env.n, bool)
        for i in np.flatnonzero(got.ended):
            ep = Batch(ret=acc.ret[i], len=acc.len[i], env=i)
            if "final" in got:
                ep.final = got.final[i]
            episodes.append(ep)
            acc.ret[i], acc.len[i] = 0, 0
        rows.append(row)
        obs = got.obs
    data = stack([r for r in rows if "first" not in r])
    flat = cat([data[:, e] for e in range(env.n)])
    flat.scaled = flat.rew / (flat.rew.std() + 1e-6)
    #! misspelt-read: flat.scaled = flat.rew / (flat.rewards.std() + 1e-6)
    out = Batch(rew=flat.rew.mean(), scaled=flat.scaled.mean(), longest=episode_lengths(flat).max())
    if episodes:
        done = stack(episodes)
        out.ep_ret = done.ret.mean()
        out.ep_len = done.len.mean()
        out.reached = np.abs(done.final[:, 0] - done.final[:, 1]).mean()
        #! misspelt-read: out.reached = np.abs(done.finals[:, 0] - done.finals[:, 1]).mean()
    return out


def best_of(history):
    best = None
    for h in history:
        if "ep_ret" not in h:
            continue
        if best is None or h["ep_ret"] > best["ep_ret"]:
            best = h
    return best


def main():
    global running
    env, norm = VecEnv(4), Welford(2)
    history = []
    for it, gain in enumerate((-0.2, 0.1, 0.5, 2.0)):
        out = iteration(env, norm, gain)
        out.gain = gain
        history.append(out)
        running = out if running is None else Batch(ep=0.5 * running.ep + 0.5 * out.rew, rew=out.rew)
        running.ep = running.rew
        print(it, f"rew {out.rew:.2f}", f"ep_len {out.ep_len:.1f}" if "ep_len" in out else "-")
    best = best_of(history)
    assert best is not None and running is not None
    print("best gain", float(best.gain), "reached", float(best.reached), float(running.ep))
    #! old-name: print("best gain", float(best.gain), "reached", float(best.success), float(running.ep))
    names = sorted(k for k in metrics if k.startswith("ep"))
    table = Batch({k: np.array(metrics[k]) for k in names})
    table.index = np.arange(len(table))
    print(table.index[-1], [round(metrics[k][-1], 2) for k in names])
    summary = Batch.stack([Batch(rew=h.rew, gain=h.gain) for h in history])
    order = np.argsort(summary.rew)[::-1]
    #! batch-for-array: order = np.argsort(summary)[::-1]
    print(summary[order].gain.tolist())


if __name__ == "__main__":
    main()
