"""Multi-agent actor-critic with everything in dicts keyed by agent: observations, buffers, policies, batches."""

from collections import defaultdict, deque
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, RolloutBatch, RolloutBatchProtocol, cat, stack

Arr = NDArray[np.float64]
AGENTS = ("scout", "carrier", "guard")


class Joint(TypedDict):
    obs: dict[str, Arr]
    share: Arr


class AgentStep(NamedTuple):
    agent: str
    data: RolloutBatch
    extra: Batch


class World:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pos = {a: self.rng.normal(size=2) for a in AGENTS}

    def see(self) -> Joint:
        share = np.concatenate([self.pos[a] for a in AGENTS])
        return Joint(obs={a: self.pos[a] - share.reshape(-1, 2).mean(0) for a in AGENTS}, share=share)

    def move(self, acts: dict[str, Arr]) -> dict[str, float]:
        for a, v in acts.items():
            self.pos[a] = self.pos[a] + 0.2 * np.clip(v, -1, 1)
        return {a: -float(np.abs(self.pos[a]).sum()) for a in AGENTS}


def rollout(world: World, gains: dict[str, Arr], steps: int, comms: bool) -> dict[str, list[AgentStep]]:
    out: dict[str, list[AgentStep]] = defaultdict(list)
    for t in range(steps):
        seen = world.see()
        joint = Batch(seen)
        if comms:
            joint.message = np.tanh(joint.share)
        acts = {a: gains[a] @ joint.obs[a] + world.rng.normal(0, 0.1, 2) for a in AGENTS}
        rews = world.move(acts)
        later = world.see()
        for a in AGENTS:
            extra = Batch(share=joint.share, t=t)
            if comms:
                extra.message = joint.message
                #! misspelt-read: extra.message = joint.messages
            mine = joint.obs[a]
            #! misspelt-read: mine = joint.observations[a]
            step = RolloutBatch(
                obs=mine,
                act=acts[a],
                rew=np.array(rews[a]),
                terminated=np.array(False),
                truncated=np.array(t == steps - 1),
                obs_next=later["obs"][a],
                info=Batch(),
            )
            out[a].append(AgentStep(a, step, extra))
    return out


def merge(steps: list[AgentStep]) -> tuple[RolloutBatch, Batch]:
    return stack([s.data for s in steps]), stack([s.extra for s in steps])


def advantage(batch: RolloutBatchProtocol, baseline: float) -> Arr:
    out: Arr = batch.rew - baseline
    #! later-stage: out: Arr = batch.returns - baseline
    return np.asarray((out - out.mean()) / (out.std() + 1e-6))


def size_of(batch: BatchProtocol) -> int:
    return len(batch)


def train(comms: bool) -> dict[str, deque[Batch]]:
    world = World(1)
    gains = {a: np.zeros((2, 2)) for a in AGENTS}
    metrics: dict[str, deque[Batch]] = {a: deque(maxlen=4) for a in AGENTS}
    totals = Batch({a: Batch(rew=0.0, n=0) for a in AGENTS})
    for it in range(5):
        per_agent = {a: merge(s) for a, s in rollout(world, gains, 8, comms).items()}
        shared = Batch()
        for a, (batch, extra) in per_agent.items():
            adv = advantage(batch, float(np.mean(batch.rew)))
            #! wrong-argument: adv = advantage(extra, float(np.mean(batch.rew)))
            work = Batch(batch)
            work.adv = adv
            work.noise = work.act - work.obs @ gains[a].T
            work.grad = work.adv[:, None, None] * work.noise[:, :, None] * work.obs[:, None, :]
            #! misspelt-read: work.grad = work.advs[:, None, None] * work.noise[:, :, None] * work.obs[:, None, :]
            gains[a] = gains[a] + 0.5 * work.grad.mean(0)
            m = Batch(it=it, rew=batch.rew.mean(), norm=np.linalg.norm(gains[a]))
            if comms:
                m.talk = np.abs(extra["message"]).mean()
            metrics[a].append(m)
            totals[a].rew += float(m.rew)
            totals[a].n += size_of(batch)
            shared[a] = Batch(adv=work.adv, rew=work.rew)
        together = cat([shared[a] for a in AGENTS])
        if it == 4:
            print("joint adv", float(together.adv.std()), "rew", float(together.rew.mean()))
            #! misspelt-read: print("joint adv", float(together.adv.std()), "rew", float(together.rewards.mean()))
    print({a: (round(float(totals[a].rew), 2), int(totals[a].n)) for a in AGENTS})
    #! misspelt-nested: print({a: (round(float(totals[a].rew), 2), int(totals[a].count)) for a in AGENTS})
    print(round(float(totals.scout.rew), 3), round(float(totals.guard.rew), 3))
    #! misspelt-nested: print(round(float(totals.scout.rew), 3), round(float(totals.gaurd.rew), 3))
    return metrics


def main() -> None:
    for comms in (True, False):
        metrics = train(comms)
        for a, rows in metrics.items():
            newest = rows[-1]
            text = f"{a:8s} {newest.rew:.3f} |g| {newest.norm:.2f}"
            text += f" talk {newest.talk:.2f}" if comms else ""
            #! branch-field: text += f" talk {newest.talk:.2f}"
            print(text)
    leader: Any = max(metrics, key=lambda a: metrics[a][-1].rew)
    print("leader", leader)


if __name__ == "__main__":
    main()
