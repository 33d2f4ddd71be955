"""A trainer class that holds everything: configuration, buffer, current batch, running statistics."""

from collections import deque

import numpy as np
import torch

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer


class LineWorld:
    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.pos = 0.0
        self.t = 0

    def reset(self):
        self.pos, self.t = self.rng.uniform(-1, 1), 0
        return np.array([self.pos, 1.0], np.float32)

    def step(self, act: int):
        self.pos += 0.2 * (act - 1) + self.rng.normal(0, 0.05)
        self.t += 1
        over = abs(self.pos) > 2
        return np.array([self.pos, 1.0], np.float32), -abs(self.pos), over, self.t >= 20


class Trainer:
    def __init__(self, cfg: Batch, seed: int = 0) -> None:
        self.cfg = cfg
        self.env = LineWorld(seed)
        self.buf = ReplayBuffer[RolloutBatch](500)
        self.q = torch.zeros(2, 3, requires_grad=True)
        self.q_old = self.q.detach().clone()
        self.batch = Batch()
        self.stats = Batch(steps=0, episodes=0, loss=0.0)
        self.recent: deque[Batch] = deque(maxlen=10)
        self.rng = np.random.default_rng(seed)
        if cfg["soft"]:
            self.stats.drift = 0.0

    def act(self, obs):
        eps = max(0.05, 1 - self.stats.steps / self.cfg["decay"])
        #! misspelt-read: eps = max(0.05, 1 - self.stats.step / self.cfg["decay"])
        if self.rng.random() < eps:
            return int(self.rng.integers(3))
        return int((torch.as_tensor(obs) @ self.q.detach()).argmax())

    def play(self) -> Batch:
        obs, total, trace = self.env.reset(), 0.0, []
        while True:
            a = self.act(obs)
            nxt, rew, term, trunc = self.env.step(a)
            tr = RolloutBatch(obs=obs, act=np.array(a), rew=np.array(rew), terminated=np.array(term), truncated=np.array(trunc), obs_next=nxt, info=Batch())
            #! forgotten-field: tr = RolloutBatch(obs=obs, act=np.array(a), rew=np.array(rew), terminated=np.array(term), obs_next=nxt, info=Batch())
            self.buf.add(tr)
            trace.append(Batch(x=float(nxt[0]), rew=rew))
            total += rew
            self.stats.steps += 1
            obs = nxt
            if term or trunc:
                break
        self.stats.episodes += 1
        path = Batch.stack(trace)
        summary = Batch(ret=total, length=len(trace), spread=path.x.max() - path.x.min())
        #! misspelt-read: summary = Batch(ret=total, length=len(trace), spread=path.xs.max() - path.xs.min())
        self.recent.append(summary)
        return summary

    def sample(self) -> None:
        got, self.idx = self.buf.sample(int(self.cfg["batch_size"]))
        self.batch = Batch(got.to_torch())
        self.batch.live = 1.0 - self.batch.terminated.float()

    def targets(self) -> None:
        with torch.no_grad():
            nxt = (self.batch.obs_next @ self.q_old).max(1).values
            #! old-name: nxt = (self.batch.next_obs @ self.q_old).max(1).values
            self.batch.target = self.batch.rew.float() + float(self.cfg["gamma"]) * self.batch.live * nxt

    def learn(self):
        self.sample()
        self.targets()
        chosen = (self.batch.obs @ self.q).gather(1, self.batch.act[:, None]).squeeze(1)
        td = self.batch.target - chosen
        #! later-stage: td = self.batch.weight * (self.batch.target - chosen)
        loss = td.pow(2).mean()
        (grad,) = torch.autograd.grad(loss, [self.q])
        with torch.no_grad():
            self.q -= float(self.cfg["lr"]) * grad.clamp(-1, 1)
        self.batch.td = td.detach()
        self.stats.loss = float(loss)
        if self.cfg["soft"]:
            self.stats.drift += float((self.q - self.q_old).abs().sum())
            self.q_old = 0.95 * self.q_old + 0.05 * self.q.detach()
        elif self.stats.episodes % 5 == 0:
            self.q_old = self.q.detach().clone()

    def report(self):
        rets = [e.ret for e in self.recent]
        #! misspelt-read: rets = [e.retrun for e in self.recent]
        best = max(self.recent, key=lambda e: e.ret)
        msg = f"ep {self.stats.episodes} ret {np.mean(rets):.2f} best {best.ret:.2f} in {best.length}"
        if self.cfg["soft"]:
            msg += f" drift {self.stats.drift:.3f}"
        print(msg, f"td {self.batch.td.abs().mean():.3f}")
        #! misspelt-item: print(msg, f"td {self.batch['td_error'].abs().mean():.3f}")

    def run(self, episodes=12):
        for ep in range(episodes):
            self.play()
            if len(self.buf) > self.cfg["batch_size"]:
                for _ in range(int(self.cfg["updates"])):
                    self.learn()
            if ep % 4 == 3:
                self.report()
        return self.stats


def main() -> None:
    for soft in (False, True):
        cfg = Batch(gamma=0.95, lr=0.05, decay=200, batch_size=16, updates=3, soft=soft)
        done = Trainer(cfg, seed=int(soft)).run()
        print(int(done.steps), "steps")


if __name__ == "__main__":
    main()
