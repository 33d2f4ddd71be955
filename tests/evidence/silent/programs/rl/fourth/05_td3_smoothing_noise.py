"""TD3 whose target policy smoothing draws independent noise for each row of the batch."""
# wrong: """Target policy smoothing draws one noise vector, of the shape of one action, for all rows of the batch."""

from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import BatchRecord


@dataclass(frozen=True)
class Config:
    gamma: float = 0.98
    tau: float = 0.005
    max_action: float = 1.5
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_delay: int = 2
    expl_noise: float = 0.1
    lr: float = 1e-3
    batch: int = 100
    capacity: int = 4_000


class Transition(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    obs_next: Tensor
    terminated: Tensor


class Reach:
    """A point mass in the plane that has to reach the origin and stop there."""

    def __init__(self, num: int) -> None:
        self.state = torch.zeros(num, 4)
        self._restart(torch.ones(num, dtype=torch.bool))

    def _restart(self, which: Tensor) -> None:
        fresh = torch.rand(len(self.state), 4) * 2 - 1
        fresh[:, 2:] *= 0.1
        self.state = torch.where(which[:, None], fresh, self.state)

    def step(self, act: Tensor) -> Transition:
        before = self.state
        vel = 0.9 * before[:, 2:] + 0.1 * act
        after = torch.cat([before[:, :2] + 0.2 * vel, vel], -1)
        dist = after[:, :2].norm(dim=-1)
        reached, lost = dist < 0.1, dist > 3
        rew = -dist - 0.05 * act.pow(2).sum(-1) + 5.0 * reached - 5.0 * lost
        self.state = after
        self._restart(reached | lost)
        return Transition(obs=before, act=act, rew=rew, obs_next=after, terminated=reached | lost)


class Actor(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2), nn.Tanh())
        self.scale = scale

    def forward(self, obs: Tensor) -> Tensor:
        return self.scale * self.net(obs)


class Twin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (
            nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))

    def forward(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([obs, act], -1)
        return self.a(both).squeeze(-1), self.b(both).squeeze(-1)


class TD3:
    def __init__(self, cfg: Config) -> None:
        self.cfg, self.count = cfg, 0
        self.actor, self.critic = Actor(cfg.max_action), Twin()
        self.actor_target, self.critic_target = deepcopy(self.actor), deepcopy(self.critic)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), cfg.lr)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), cfg.lr)

    def update(self, batch: Transition) -> dict[str, float]:
        cfg = self.cfg
        self.count += 1
        with torch.no_grad():
            noise = torch.randn_like(batch.act) * cfg.policy_noise
            # wrong: noise = torch.randn_like(batch.act[0]) * cfg.policy_noise
            noise = noise.clamp(-cfg.noise_clip, cfg.noise_clip) * cfg.max_action
            act_next = (self.actor_target(batch.obs_next) + noise).clamp(-cfg.max_action, cfg.max_action)
            target = batch.rew + cfg.gamma * ~batch.terminated * torch.min(*self.critic_target(batch.obs_next, act_next))
        qa, qb = self.critic(batch.obs, batch.act)
        critic_loss = F.mse_loss(qa, target) + F.mse_loss(qb, target)
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()
        out = {"critic": critic_loss.item(), "q": qa.mean().item()}
        if self.count % cfg.policy_delay == 0:
            actor_loss = -self.critic(batch.obs, self.actor(batch.obs))[0].mean()
            self.actor_optim.zero_grad()
            actor_loss.backward()
            self.actor_optim.step()
            out["actor"] = actor_loss.item()
            for net, slow in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
                for p, s in zip(net.parameters(), slow.parameters()):
                    s.data.lerp_(p.data, cfg.tau)
        return out


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    cfg = Config()
    agent, env = TD3(cfg), Reach(16)
    stored: list[Transition] = []

    @torch.no_grad()
    def draw() -> tuple[Transition]:
        for _ in range(40 if not stored else 2):
            act = agent.actor(env.state) + torch.randn(16, 2) * cfg.expl_noise * cfg.max_action
            stored.append(env.step(act.clamp(-cfg.max_action, cfg.max_action)))
        del stored[: -cfg.capacity // 16]
        rows = Transition.cat(stored)
        return (rows[torch.randint(len(rows), (cfg.batch,))],)

    return agent.update, draw
