"""SAC with an ensemble of critics that torch.func evaluates at once, on Pendulum."""
# wrong: """stack_module_state copies the critics' parameters; the optimizer has those of the modules, so no critic ever learns."""
# Source: torch.func's docs on ensembling; the stacked parameters are new leaves, and optimizers skip those without gradient.
from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.distributions import Normal

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

CRITICS, SUBSET, GAMMA, TAU, ALPHA = 4, 2, 0.98, 0.02, 0.1


def make_critic() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    actor = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 2))
    critics = [make_critic() for _ in range(CRITICS)]
    params, _ = stack_module_state(critics)
    slow = {name: value.detach().clone() for name, value in params.items()}
    skeleton = make_critic().to("meta")
    actor_optim = torch.optim.Adam(actor.parameters(), 1e-3)
    critic_optim = torch.optim.Adam(params.values(), 1e-3)
    # wrong: critic_optim = torch.optim.Adam([p for critic in critics for p in critic.parameters()], 1e-3)

    def values(weights: dict[str, Tensor], obs: Tensor, act: Tensor) -> Tensor:
        """Of shape (critics, N)."""
        both = torch.cat([obs, act], -1)
        return vmap(lambda w: functional_call(skeleton, w, (both,)))(weights).squeeze(-1)

    def choose(obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = actor(obs).chunk(2, -1)
        dist = Normal(mean, log_std.clamp(-5, 1).exp())
        raw = dist.rsample()
        logp = dist.log_prob(raw) - (2.0 * (1 - raw.tanh().square()) + 1e-6).log()
        return 2.0 * raw.tanh(), logp.sum(-1)

    def explore(batch: ObsBatch) -> ActBatch:
        return ActBatch(act=choose(torch.as_tensor(batch.obs))[0].numpy())

    collector = Collector(gym.make_vec("Pendulum-v1", 4), explore)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](4_000, 4, random_seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=16)
        return (buffer.sample(256, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        for part in batch.split(64, rng=torch.default_generator):
            with torch.no_grad():
                act, logp = choose(part.obs_next)
                few = values(slow, part.obs_next, act)[torch.randperm(CRITICS)[:SUBSET]].amin(0)
                y = part.rew + GAMMA * (~part.terminated).float() * (few - ALPHA * logp)
            critic_loss = (values(params, part.obs, part.act) - y).square().mean(1).sum()
            critic_optim.zero_grad()
            critic_loss.backward()
            critic_optim.step()
            act, logp = choose(part.obs)
            frozen = {name: value.detach() for name, value in params.items()}
            actor_loss = (ALPHA * logp - values(frozen, part.obs, act).mean(0)).mean()
            actor_optim.zero_grad()
            actor_loss.backward()
            actor_optim.step()
            for name, value in slow.items():
                value.lerp_(params[name].detach(), TAU)
        return {"critic": critic_loss.item(), "actor": actor_loss.item()}

    return update, draw
