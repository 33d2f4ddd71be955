"""PPO on a toy tracking task, everything in one main() with a flag for every trick."""

import argparse
import math
import sys
from typing import Any

import numpy as np
import torch
import torch.nn as nn

from typedbatch import Batch, cat, stack


def parse(argv: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--envs", type=int, default=4)
    p.add_argument("--iters", type=int, default=3)
    p.add_argument("--gae", action="store_true")
    p.add_argument("--no-clip-v", dest="clip_v", action="store_false")
    p.add_argument("--mask", action="store_true")
    p.add_argument("--rnd", action="store_true")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--target-kl", type=float, default=None)
    return p.parse_args(argv)


def main(argv: list[str]) -> None:
    args = parse(argv)
    rng = np.random.default_rng(7)
    torch.manual_seed(7)
    actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=args.lr)
    state = rng.normal(size=(args.envs, 3)).astype(np.float32)
    cfg = Batch(clip=0.2, vf=0.5, ent=0.01, gamma=0.97)
    if args.gae:
        cfg.lam = 0.9
    history: list[Batch] = []

    for it in range(args.iters):
        rows: list[Batch] = []
        for t in range(args.steps):
            with torch.no_grad():
                x = torch.as_tensor(state)
                dist = torch.distributions.Categorical(logits=actor(x))
                a = dist.sample()
            step = Batch(obs=state.copy(), act=a.numpy(), logp=dist.log_prob(a).numpy())
            step.value = critic(x).detach().squeeze(-1).numpy()
            state = (state + 0.1 * (2 * step.act[:, None] - 1) + rng.normal(0, 0.02, state.shape)).astype(np.float32)
            #! later-stage: state = (state + 0.1 * (2 * step.act[:, None] - 1) * step.scale).astype(np.float32)
            step.rew = -np.abs(state).sum(axis=1)
            step.done = rng.random(args.envs) < 0.05
            if args.mask:
                step.mask = np.ones(args.envs, np.float32)
            if args.rnd:
                step.bonus = np.square(state).mean(1)
                step.rew = step.rew + 0.01 * step.bonus
            rows.append(step)
        data = stack(rows)
        #! wrong-argument: data = cat(rows)
        horizon = data.rew.shape[0]
        last_v = critic(torch.as_tensor(state)).detach().squeeze(-1).numpy()

        if args.gae:
            data.adv = np.zeros_like(data.rew)
            run = np.zeros(args.envs)
            for t in reversed(range(horizon)):
                nxt = last_v if t == horizon - 1 else data.value[t + 1]
                live = 1.0 - data.done[t]
                #! old-name: live = 1.0 - data.terminated[t]
                delta = data.rew[t] + cfg.gamma * nxt * live - data.value[t]
                run = delta + cfg.gamma * cfg.lam * live * run
                data.adv[t] = run
            data.ret = data.adv + data.value
        else:
            data.ret = np.zeros_like(data.rew)
            acc = last_v
            for t in reversed(range(horizon)):
                acc = data.rew[t] + cfg.gamma * acc * (1 - data.done[t])
                data.ret[t] = acc
            data.adv = data.ret - data.value
            #! misspelt-read: data.adv = data.ret - data.values_

        flat = cat([data[:, e] for e in range(args.envs)])
        flat.adv = (flat.adv - flat.adv.mean()) / (flat.adv.std() + 1e-8)
        flat.to_torch_(dtype=torch.float32)
        stats: list[Batch] = []
        stop = False
        for epoch in range(2):
            for i, mb in enumerate(flat.split(32, rng=rng)):
                mb.act = mb.act.long()
                d = torch.distributions.Categorical(logits=actor(mb.obs))
                #! batch-for-array: d = torch.distributions.Categorical(logits=actor(mb))
                mb.logp_new = d.log_prob(mb.act)
                ratio = (mb.logp_new - mb.logp).exp()
                #! misspelt-read: ratio = (mb.logp_new - mb.log_prob).exp()
                pg = -torch.min(ratio * mb.adv, ratio.clamp(1 - float(cfg.clip), 1 + float(cfg.clip)) * mb.adv)
                if args.mask:
                    pg = pg * mb.mask
                v = critic(mb.obs).squeeze(-1)
                if args.clip_v:
                    v_c = mb.value + (v - mb.value).clamp(-0.2, 0.2)
                    vl = torch.max((v - mb.ret) ** 2, (v_c - mb.ret) ** 2).mean()
                else:
                    vl = ((v - mb.ret) ** 2).mean()
                ent: Any = d.entropy().mean()
                loss = pg.mean() + float(cfg.vf) * vl - float(cfg.ent) * ent
                #! misspelt-item: loss = pg.mean() + float(cfg["vf_coef"]) * vl - float(cfg["ent"]) * ent
                opt.zero_grad()
                loss.backward()
                opt.step()
                out = Batch(pg=pg.mean().item(), vl=vl.item(), kl=(mb.logp - mb.logp_new).mean().item())
                if i == 0:
                    out.entropy = ent.item()
                stats.append(out)
                if args.target_kl is not None and out.kl > args.target_kl:
                    stop = True
                    break
            if stop:
                break
        log = Batch(it=it, ret=float(flat.ret.mean()), kl=float(np.mean([s.kl for s in stats])))
        log.ent = float(stats[0].entropy)
        if args.rnd:
            log.bonus = float(flat.bonus.mean())
        history.append(log)
        line = f"{it:3d} ret {log.ret:.2f} kl {log.kl:.4f}"
        if args.rnd and log.bonus > 0:
            line += f" bonus {log.bonus:.3f}"
        line += f" ent {log.ent:.3f}"
        #! branch-field: line += f" ent {log.ent:.3f} bonus {log.bonus:.3f}"
        print(line)
    assert all(math.isfinite(h.ret) for h in history)


if __name__ == "__main__":
    main(["--gae", "--mask"])
    main(["--no-clip-v", "--target-kl", "0.5", *sys.argv[1:]])
