"""Homework 3: deep Q-learning on a corridor, with module globals as handed out with the exercise."""

import collections
import random

import numpy as np
import torch
import torch.nn.functional as F

from typedbatch import Batch

N = 8
GAMMA = 0.9
DOUBLE = True
PRIORITY = False
memory: collections.deque[Batch] = collections.deque(maxlen=400)
log = Batch(loss=[], length=[])
hparams = Batch(lr=0.05, batch=32, eps=0.3)
W = torch.zeros(N, 2, requires_grad=True)
W_target = torch.zeros(N, 2)


def onehot(i):
    v = np.zeros(N, dtype=np.float32)
    v[i] = 1
    return v


def env_step(s, a):
    s2 = min(N - 1, max(0, s + (1 if a == 1 else -1)))
    return s2, float(s2 == N - 1), s2 == N - 1


def remember(s, a, r, s2, done):
    t = Batch(obs=onehot(s), act=a, rew=r, obs_next=onehot(s2), done=done)
    if PRIORITY:
        t.prio = 1.0
    memory.append(t)
    return t


def run_episode():
    s, steps, total = random.randrange(N - 1), 0, 0.0
    while steps < 60:
        if random.random() < float(hparams.eps):
            a = random.randrange(2)
        else:
            a = int(W[s].argmax())
        s2, r, done = env_step(s, a)
        t = remember(s, a, r, s2, done)
        total += t["rew"]
        #! misspelt-item: total += t["reward"]
        s, steps = s2, steps + 1
        if done:
            break
    return Batch(steps=steps, total=total, solved=steps < 60)


def q_update():
    picked = random.sample(list(memory), int(hparams.batch))
    b = Batch.stack(picked)
    b.to_torch_()
    q = (b.obs @ W).gather(1, b.act.long()[:, None])[:, 0]
    #! misspelt-read: q = (b.obs @ W).gather(1, b.action.long()[:, None])[:, 0]
    with torch.no_grad():
        if DOUBLE:
            b.best = (b.obs_next @ W).argmax(1)
            nxt = (b.obs_next @ W_target).gather(1, b.best[:, None])[:, 0]
        else:
            nxt = (b.obs_next @ W_target).max(1)[0]
        b.target = b.rew + GAMMA * nxt * (~b.done)
        #! old-name: b.target = b.rew + GAMMA * nxt * (~b.dones)
    if PRIORITY:
        w = b.prio / b.prio.sum()
        loss = (w * (q - b.target) ** 2).sum()
    else:
        loss = F.mse_loss(q, b.target.float())
        #! wrong-argument: loss = F.mse_loss(q, b.targets.float())
    loss.backward()
    assert W.grad is not None
    with torch.no_grad():
        W.sub_(float(hparams.lr) * W.grad.clamp(-5, 5))
        W.grad.zero_()
    return loss.item()


def evaluate():
    rows = []
    for s in range(N - 1):
        q = W[s].detach().numpy()
        row = Batch(state=s, left=q[0], right=q[1])
        row.greedy = int(q.argmax())
        rows.append(row)
    table = Batch.stack(rows)
    table.right_is_best = table.right >= table.left
    print("right everywhere:", bool(table.right_is_best.all()))
    #! misspelt-read: print("right everywhere:", bool(table.right_best.all()))
    print("greedy", table.greedy.tolist())
    return table


def main():
    global W_target
    random.seed(0)
    losses, lengths = [], []
    best = None
    for ep in range(30):
        info = run_episode()
        lengths.append(int(info.steps))
        #! old-name: lengths.append(int(info.length))
        if best is None or info.steps < best.steps:
            best = info
            best.episode = ep
        if len(memory) >= hparams.batch:
            for _ in range(4):
                losses.append(q_update())
        if ep % 3 == 0:
            W_target = W.detach().clone()
            hparams.eps = max(0.05, float(hparams.eps) * 0.9)
    log.update(loss=losses, length=lengths)
    assert best is not None
    print("best episode", best.episode, "took", int(best.steps))
    #! batch-for-array: print("best episode", best.episode, "took", int(best))
    print("mean length", log.length[-10:].mean(), "loss", log.loss[-20:].mean())
    table = evaluate()
    del log.loss
    print(sorted(log.keys()), log.length.sum())
    #! removed-field: print(sorted(log.keys()), log.loss.sum())
    assert len(table) == N - 1


if __name__ == "__main__":
    main()
