"""Offline datasets from several labs, with different column names, merged, filtered, relabelled and sampled."""

import collections

import numpy as np

from typedbatch import Batch, RolloutBatchProtocol, cat, conforms, validate
from typedbatch.episodes import split_by_episode

ALIASES = {"observations": "obs", "actions": "act", "rewards": "rew", "dones": "terminated", "next_observations": "obs_next"}


def lab_a(rng, n=20):
    obs = rng.normal(size=(n + 1, 2))
    d = {"observations": obs[:-1], "next_observations": obs[1:], "actions": rng.integers(0, 2, n)}
    d["rewards"] = rng.random(n)
    d["dones"] = np.arange(n) % 5 == 4
    return Batch(**d)


def lab_b(rng, n=12):
    b = Batch(obs=rng.normal(size=(n, 2)), act=rng.integers(0, 2, n), rew=rng.random(n))
    b.obs_next = b.obs + 0.1
    b.terminated = np.zeros(n, bool)
    b.terminated[5::6] = True
    b.truncated = ~b.terminated & False
    b.quality = b.rew * 0 + 0.5
    return b


def clean(raw):
    for old, new in ALIASES.items():
        if old in raw:
            raw[new] = raw.pop(old)
    if "truncated" not in raw:
        raw["truncated"] = np.zeros_like(raw["terminated"])
    raw.setdefault("info", Batch())
    raw.setdefault("quality", np.ones(len(raw["rew"])))
    raw.rew = np.clip(raw.rew, 0, 1)
    return raw


def returns_to_go(ep: Batch, gamma: float = 0.9) -> np.ndarray:
    out = np.zeros(len(ep) + 1)
    for t in range(len(ep) - 1, -1, -1):
        out[t] = ep["rew"][t] + gamma * out[t + 1]
    return out[:-1]


def label(data: Batch) -> Batch:
    parts = []
    for ep in split_by_episode(data):
        ep = ep.copy()
        ep.rtg = returns_to_go(ep)
        ep.length = np.full(len(ep), len(ep))
        ep.score = ep.rtg[0] * np.ones(len(ep))
        parts.append(ep)
    everything = cat(parts)
    everything.good = everything.score >= np.median(everything.score)
    return everything


def count_actions(batch: RolloutBatchProtocol) -> collections.Counter[int]:
    return collections.Counter(batch.act.tolist())


def awr_weights(data, temp=0.3, normalise=False):
    w = Batch(raw=np.exp((data["rtg"] - data["rtg"].mean()) / temp))
    w.clipped = np.minimum(w.raw, 20)
    if normalise:
        w.unit = w.clipped / w.clipped.sum()
        return w.unit
    return w.clipped


def behaviour_clone(data: Batch, weights, steps=40) -> Batch:
    state = Batch(w=np.zeros(2), b=0.0, step=0)
    while state.step < steps:
        p = 1 / (1 + np.exp(-(data["obs"] @ state.w + state.b)))
        err = (data["act"] - p) * weights / weights.mean()
        state.w += 0.5 * (err[:, None] * data["obs"]).mean(0)
        state.b += 0.5 * err.mean()
        state.step += 1
        if state.step % 20 == 0:
            state.loss = -np.mean(np.log(np.where(data["act"] == 1, p, 1 - p)))
    state.final_p = p
    return state


def main() -> None:
    rng = np.random.default_rng(5)
    sources = collections.OrderedDict(a=lab_a(rng), b=lab_b(rng))
    sources["a_again"] = Batch(sources["a"], copy=True)
    for name, raw in sources.items():
        sources[name] = clean(raw)
    ok = {k: v for k, v in sources.items() if conforms(v, RolloutBatchProtocol)}
    print(list(ok))
    for k in ok:
        print(k, count_actions(validate(sources[k], RolloutBatchProtocol)))
    merged = cat([sources["a"], sources["b"]])
    for flag, value in {"from_sim": True, "version": 2}.items():
        setattr(merged, flag, np.full(len(merged["rew"]), value))
    data = label(merged)
    for norm in (False, True):
        w = awr_weights(data, normalise=norm)
        state = behaviour_clone(data, w)
        print("loss", float(state.loss), "after", int(state.step), "p", state.final_p.mean().round(2))
    good = data[data["good"]]
    window = collections.deque((good[i : i + 4] for i in range(0, len(good) - 4, 4)), maxlen=3)
    last = Batch.cat(window)
    print(len(last), last.rtg.mean().round(2), last.from_sim.all())
    last.pop("rtg")
    top = Batch(obs=last.obs, size=last.length)
    print(top.obs.shape, top.size.max())


if __name__ == "__main__":
    main()
