"""Recurrent PPO that unrolls a GRU over each environment's rows and clears the state where an episode begins."""
# wrong: """The unroll in training carries the GRU state across episode boundaries; it is never cleared where t is 0."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import TransformObservation
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, RolloutBatch, convert, extend
from typedbatch.buffers import compute_episodic_return
from typedbatch.training import Collector, ObsStateBatch, by_env

UNITS, GAMMA, LAMBDA, CLIP, EPOCHS = 16, 0.98, 0.9, 0.2, 3


class Choice(ActBatch[Tensor]):
    state: Tensor
    logp: Tensor
    value: Tensor


class Steps(RolloutBatch):
    env_id: NDArray[np.int64]
    t: NDArray[np.int64]
    state_in: Tensor


class TensorSteps(RolloutBatch[Tensor]):
    env_id: Tensor
    t: Tensor
    state_in: Tensor


class Rollout(TensorSteps):
    state_out: Tensor
    logp: Tensor
    value: Tensor


class Targets(LogpOldBatch[Tensor]):
    env_id: Tensor
    t: Tensor
    state_in: Tensor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.pi, self.v = nn.GRUCell(2, UNITS), nn.Linear(UNITS, 2), nn.Linear(UNITS, 1)

    def act(self, batch: ObsStateBatch) -> Choice:
        state = self.cell(torch.as_tensor(batch.obs), batch.state)
        dist = Categorical(logits=self.pi(state))
        act = dist.sample()
        return Choice(act=act, state=state, logp=dist.log_prob(act), value=self.v(state).squeeze(-1))


def record(rollout: Steps, choice: Choice) -> Rollout:
    rows = convert(rollout, TensorSteps, dtype=torch.float32)
    return extend(rows, Rollout, state_out=choice.state, logp=choice.logp, value=choice.value)


def positions(num: int) -> gym.vector.VectorEnv:
    space = gym.spaces.Box(-np.inf, np.inf, (2,))
    scale = np.array([1, 10], np.float32)
    return TransformObservation(
        gym.make_vec("CartPole-v1", num), lambda obs: obs[:, [0, 2]] * scale, batch_space(space, num), space)


def unroll(net: Net, batch: Targets) -> Tensor:
    """The state after each row, in the order of the rows."""
    grouped = by_env(batch)
    state, outs = grouped.batch.state_in[:, 0], []
    for step in range(grouped.mask.shape[1]):
        state = torch.where(grouped.batch.t[:, step, None] == 0, 0.0, state)
        # wrong: without this line
        state = net.cell(grouped.batch.obs[:, step], state)
        outs.append(state)
    return grouped.flat(torch.stack(outs, 1))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net = Net()
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    collector = Collector(positions(8), net.act, record, state=torch.zeros(UNITS), rollout=Steps)
    collector.reset(seed)

    def draw() -> tuple[Rollout]:
        return (collector.rollout(n_step=8 * 48),)

    def process(batch: Rollout) -> Targets:
        with torch.no_grad():
            v_next = net.v(net.cell(batch.obs_next, batch.state_out)).squeeze(-1)
        returns, adv = compute_episodic_return(batch, v_s_=v_next, v_s=batch.value, gamma=GAMMA, gae_lambda=LAMBDA)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        return extend(batch, Targets, returns=returns, adv=adv, v_s=batch.value, logp_old=batch.logp)

    def update(batch: Rollout) -> dict[str, float]:
        data = process(batch)
        for _ in range(EPOCHS):
            features = unroll(net, data)
            dist = Categorical(logits=net.pi(features))
            ratio = (dist.log_prob(data.act) - data.logp_old).exp()
            policy = -torch.min(ratio * data.adv, ratio.clamp(1 - CLIP, 1 + CLIP) * data.adv).mean()
            value = (net.v(features).squeeze(-1) - data.returns).pow(2).mean()
            optim.zero_grad()
            (policy + 0.01 * value - 0.005 * dist.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optim.step()
        return {"policy": policy.item(), "value": value.item(), "entropy": dist.entropy().mean().item()}

    return update, draw
