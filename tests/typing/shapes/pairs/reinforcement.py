"""Pairs of programs about reinforcement learning, each below its name."""

from __future__ import annotations

from typing import NamedTuple
import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

# ---- mod_c51_expectation
# C51: categorical distributional Q network and projected Bellman target.
class C51(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, n_atoms: int = 51, v_max: float = 10.0):
        super().__init__()
        self.n_actions, self.n_atoms = n_actions, n_atoms
        self.register_buffer("support", torch.linspace(-v_max, v_max, n_atoms))
        self.net = nn.Sequential(
            nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, n_actions * n_atoms)
        )

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A Z"]:
        return self.net(obs).view(-1, self.n_actions, self.n_atoms).softmax(dim=-1)

    def q_values(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A"]:
        probs = self(obs)
        return (probs * self.support).sum(dim=-1)
        # wrong: return (probs * self.support).sum(dim=1)  # WRONG

    def act(self, obs: Float[Tensor, "B O"]) -> Int[Tensor, "B"]:
        return self.q_values(obs).argmax(dim=1)


def project(
    next_probs: Float[Tensor, "B Z"],
    reward: Float[Tensor, "B"],
    done: Float[Tensor, "B"],
    support: Float[Tensor, "Z"],
    gamma: float = 0.99,
) -> Float[Tensor, "B Z"]:
    delta = support[1] - support[0]
    tz = reward[:, None] + gamma * (1 - done)[:, None] * support[None, :]
    b = (tz.clamp(support[0], support[-1]) - support[0]) / delta
    grid = torch.arange(support.shape[0])
    overlap = (1 - (b[:, None, :] - grid[None, :, None]).abs()).clamp(min=0)
    return (overlap * next_probs[:, None, :]).sum(dim=-1)


def main() -> None:
    torch.manual_seed(0)
    B = 8
    net = C51(obs_dim=4, n_actions=3)
    obs = torch.randn(B, 4)
    print("greedy", net.act(obs).tolist())
    with torch.no_grad():
        dist = net(obs)[:, 0]
        target = project(dist, torch.randn(B), torch.zeros(B), net.support)
    print("mass", target.sum(dim=-1).mean().item())

# ---- mod_critic_ensemble_min
# REDQ-style critic ensemble: pessimistic target over a set of Q functions.
def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Critic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int):
        super().__init__()
        self.net = mlp(obs_dim + act_dim, 64, 64, 1)

    def forward(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
        return self.net(torch.cat([obs, act], dim=-1)).squeeze(-1)


class CriticEnsemble(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, n: int):
        super().__init__()
        self.members = nn.ModuleList([Critic(obs_dim, act_dim) for _ in range(n)])

    def forward(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "E B"]:
        return torch.stack([critic(obs, act) for critic in self.members], dim=0)

    def pessimistic(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
        return self(obs, act).min(dim=0).values
        # wrong: return self(obs, act).min(dim=-1).values  # WRONG

    def disagreement(self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]) -> Float[Tensor, "B"]:
        return self(obs, act).std(dim=0)


def main() -> None:
    torch.manual_seed(0)
    ens = CriticEnsemble(obs_dim=6, act_dim=2, n=5)
    obs, act = torch.randn(12, 6), torch.randn(12, 2)
    with torch.no_grad():
        low = ens.pessimistic(obs, act)
        # wrong: low = ens.pessimistic(obs, act)  # WRONG
        bonus = ens.disagreement(obs, act)
    print("mean lower bound", low.mean().item(), "bonus", bonus.mean().item())

# ---- mod_double_dqn_gather
import copy
# Double DQN update on a replay batch.
class Batch(NamedTuple):
    obs: Float[Tensor, "B O"]
    action: Int[Tensor, "B"]
    reward: Float[Tensor, "B"]
    next_obs: Float[Tensor, "B O"]
    done: Float[Tensor, "B"]


class QNetwork(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_dim, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, n_actions),
        )

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A"]:
        return self.net(obs)


def td_loss(q: QNetwork, target: QNetwork, batch: Batch, gamma: float = 0.99) -> Float[Tensor, ""]:
    q_taken = q(batch.obs).gather(1, batch.action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = q(batch.next_obs).argmax(dim=1, keepdim=True)
        next_q = target(batch.next_obs).gather(1, best).squeeze(1)
        # wrong: next_q = target(batch.next_obs).gather(1, best)  # WRONG
        y = batch.reward + gamma * (1.0 - batch.done) * next_q
        # wrong: y = batch.reward + gamma * (1.0 - batch.done) * next_q  # WRONG
    return (q_taken - y).pow(2).mean()


def main() -> None:
    torch.manual_seed(0)
    B, O, A = 32, 4, 2
    q = QNetwork(O, A)
    target = copy.deepcopy(q)
    batch = Batch(
        torch.randn(B, O),
        torch.randint(0, A, (B,)),
        torch.randn(B),
        torch.randn(B, O),
        (torch.rand(B) < 0.1).float(),
    )
    opt = torch.optim.Adam(q.parameters(), lr=2.5e-4)
    loss = td_loss(q, target, batch)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("td loss", loss.item())

# ---- mod_gae_bootstrap
# Generalised advantage estimation over vectorised rollouts (time-major).
def compute_gae(
    rewards: Float[Tensor, "T N"],
    values: Float[Tensor, "T+1 N"],
    dones: Float[Tensor, "T N"],
    gamma: float = 0.99,
    lam: float = 0.95,
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    """``values`` carries one bootstrap row at the end."""
    not_done = 1.0 - dones
    deltas = rewards + gamma * values[1:] * not_done - values[:-1]
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[0])
    for t in reversed(range(rewards.shape[0])):
        running = deltas[t] + gamma * lam * not_done[t] * running
        advantages[t] = running
    returns = advantages + values[:-1]
    # wrong: returns = advantages + values  # WRONG
    return advantages, returns


def normalize(adv: Float[Tensor, "T N"], eps: float = 1e-8) -> Float[Tensor, "T N"]:
    return (adv - adv.mean()) / (adv.std() + eps)


def main() -> None:
    torch.manual_seed(0)
    T, N = 16, 4
    rewards = torch.randn(T, N)
    values = torch.randn(T + 1, N)
    dones = (torch.rand(T, N) < 0.1).float()
    adv, ret = compute_gae(rewards, values, dones)
    print("adv", normalize(adv).std().item(), "ret", ret.mean().item())

# ---- mod_gaussian_actor_critic
from torch.distributions import Normal
# PPO actor-critic with a Gaussian policy for continuous control.
class ActorCritic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.mu = nn.Linear(hidden, act_dim)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def forward(
        self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"], Float[Tensor, "B"]]:
        h = self.trunk(obs)
        dist = Normal(self.mu(h), self.log_std.exp())
        logp = dist.log_prob(act).sum(dim=-1)
        entropy = dist.entropy().sum(dim=-1)
        value = self.value(h).squeeze(-1)
        # wrong: value = self.value(h)  # WRONG
        return logp, entropy, value
        # wrong: return logp, entropy, value  # WRONG


def ppo_loss(
    logp: Float[Tensor, "B"],
    old_logp: Float[Tensor, "B"],
    adv: Float[Tensor, "B"],
    value: Float[Tensor, "B"],
    ret: Float[Tensor, "B"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    ratio = (logp - old_logp).exp()
    surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    value_loss = 0.5 * (value - ret).pow(2).mean()
    return -surrogate.mean() + 0.5 * value_loss


def main() -> None:
    torch.manual_seed(0)
    net = ActorCritic(obs_dim=11, act_dim=3)
    obs, act = torch.randn(16, 11), torch.randn(16, 3)
    logp, entropy, value = net(obs, act)
    adv, ret = torch.randn(16), torch.randn(16)
    loss = ppo_loss(logp, logp.detach(), adv, value, ret) - 0.01 * entropy.mean()
    loss.backward()
    print(f"loss {loss.item():.4f}")

# ---- mod_gru_policy_stack
# GRU policy unrolled over batch-major observation sequences (DRQN style).
class GRUPolicy(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(obs_dim, hidden_dim), nn.ELU())
        self.cell = nn.GRUCell(hidden_dim, hidden_dim)
        self.out = nn.Linear(hidden_dim, act_dim)

    def forward(
        self, obs: Float[Tensor, "B T O"], h: Float[Tensor, "B H"]
    ) -> tuple[Float[Tensor, "B T A"], Float[Tensor, "B H"]]:
        logits = []
        for t in range(obs.shape[1]):
            h = self.cell(self.embed(obs[:, t]), h)
            logits.append(self.out(h))
        return torch.stack(logits, dim=1), h
        # wrong: return torch.stack(logits), h  # WRONG


def behaviour_cloning_loss(
    logits: Float[Tensor, "B T A"], actions: Int[Tensor, "B T"]
) -> Float[Tensor, ""]:
    flat = logits.reshape(-1, logits.shape[-1])
    return nn.functional.cross_entropy(flat, actions.reshape(-1))


def main() -> None:
    torch.manual_seed(0)
    B, T, O, A, H = 6, 9, 5, 4, 24
    policy = GRUPolicy(O, A, H)
    logits, h = policy(torch.randn(B, T, O), torch.zeros(B, H))
    actions = torch.randint(0, A, (B, T))
    loss = behaviour_cloning_loss(logits, actions)
    loss.backward()
    print("bc loss", loss.item(), "final state", tuple(h.shape))

# ---- mod_lstm_ppo_done_mask
from jaxtyping import Bool
# Recurrent PPO policy: an LSTM whose state is reset at episode boundaries.
LSTMState = tuple[Tensor, Tensor]


class RecurrentPolicy(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 32):
        super().__init__()
        self.hidden = hidden
        self.encoder = nn.Linear(obs_dim, hidden)
        self.lstm = nn.LSTM(hidden, hidden)
        self.actor = nn.Linear(hidden, n_actions)
        self.critic = nn.Linear(hidden, 1)

    def initial_state(self, batch: int) -> LSTMState:
        zeros = torch.zeros(1, batch, self.hidden)
        return zeros, zeros.clone()

    def forward(
        self,
        obs: Float[Tensor, "T B O"],
        done: Bool[Tensor, "T B"],
        state: LSTMState,
    ) -> tuple[Float[Tensor, "T B A"], Float[Tensor, "T B"], LSTMState]:
        feats = torch.relu(self.encoder(obs))
        outs = []
        for x, d in zip(feats, done):
            keep = (1.0 - d.float()).view(1, -1, 1)
            # wrong: keep = (1.0 - d.float()).view(1, 1, -1)  # WRONG
            h, c = state
            out, state = self.lstm(x.unsqueeze(0), (keep * h, keep * c))
            outs.append(out)
        y = torch.cat(outs, dim=0)
        return self.actor(y), self.critic(y).squeeze(-1), state


def main() -> None:
    torch.manual_seed(0)
    T, B, O, A = 5, 4, 7, 3
    net = RecurrentPolicy(O, A)
    done = torch.rand(T, B) < 0.2
    logits, values, (h, _) = net(torch.randn(T, B, O), done, net.initial_state(B))
    # wrong: logits, values, (h, _) = net(torch.randn(T, B, O), done, net.initial_state(B))  # WRONG
    print(logits.shape, values.shape, h.shape)

# ---- mod_noisy_dueling
import math
# Dueling Q network with noisy linear layers.
def scaled_noise(n: int) -> Float[Tensor, "n"]:
    x = torch.randn(n)
    return x.sign() * x.abs().sqrt()


class NoisyLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int, sigma: float = 0.5):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features)
        self.w_mu = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.w_sigma = nn.Parameter(torch.full((out_features, in_features), sigma * bound))
        self.b_mu = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.b_sigma = nn.Parameter(torch.full((out_features,), sigma * bound))

    def forward(self, x: Tensor) -> Tensor:
        eps_in, eps_out = scaled_noise(self.in_features), scaled_noise(self.out_features)
        weight = self.w_mu + self.w_sigma * torch.outer(eps_out, eps_in)
        # wrong: weight = self.w_mu + self.w_sigma * torch.outer(eps_in, eps_out)  # WRONG
        return F.linear(x, weight, self.b_mu + self.b_sigma * eps_out)


class DuelingQ(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, width: int = 64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU())
        self.value = NoisyLinear(width, 1)
        self.advantage = NoisyLinear(width, n_actions)

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A"]:
        h = self.body(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


def main() -> None:
    torch.manual_seed(0)
    net = DuelingQ(obs_dim=8, n_actions=5)
    q = net(torch.randn(10, 8))
    # wrong: q = net(torch.randn(10, 8))  # WRONG
    print("greedy", q.argmax(dim=-1).tolist())

# ---- mod_qr_dqn_tau
# QR-DQN quantile head and quantile Huber loss.
class QuantileNet(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, n_quantiles: int) -> None:
        super().__init__()
        self.n_quantiles = n_quantiles
        self.torso = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU())
        self.head = nn.Linear(64, n_actions * n_quantiles)

    def forward(self, obs: Float[Tensor, "B O"]) -> Float[Tensor, "B A N"]:
        return self.head(self.torso(obs)).unflatten(-1, (-1, self.n_quantiles))


def select(quantiles: Float[Tensor, "B A N"], action: Int[Tensor, "B"]) -> Float[Tensor, "B N"]:
    return quantiles[torch.arange(action.shape[0]), action]


def quantile_huber(
    pred: Float[Tensor, "B N"],
    target: Float[Tensor, "B M"],
    tau: Float[Tensor, "N"],
    kappa: float = 1.0,
) -> Float[Tensor, ""]:
    td = target[:, None, :] - pred[:, :, None]
    huber = torch.where(td.abs() <= kappa, 0.5 * td**2, kappa * (td.abs() - 0.5 * kappa))
    weight = (tau[None, :, None] - (td.detach() < 0).float()).abs()
    # wrong: weight = (tau[None, None, :] - (td.detach() < 0).float()).abs()  # WRONG
    return (weight * huber / kappa).mean(dim=2).sum(dim=1).mean()


def main() -> None:
    torch.manual_seed(0)
    B, O, A, N = 16, 6, 4, 21
    net, target_net = QuantileNet(O, A, N), QuantileNet(O, A, N)
    tau = (torch.arange(N) + 0.5) / N
    obs, next_obs = torch.randn(B, O), torch.randn(B, O)
    action = torch.randint(0, A, (B,))
    with torch.no_grad():
        nxt = target_net(next_obs)
        best = nxt.mean(dim=-1).argmax(dim=-1)
        target = torch.randn(B)[:, None] + 0.99 * select(nxt, best)
    loss = quantile_huber(select(net(obs), action), target, tau)
    loss.backward()
    print("qr loss", loss.item())

# ---- mod_sac_log_prob
# SAC: squashed Gaussian actor, twin critics and the soft Bellman target.
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class Actor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden)
        self.mean = nn.Linear(hidden, act_dim)
        self.log_std = nn.Linear(hidden, act_dim)

    def sample(self, obs: Float[Tensor, "B O"]) -> tuple[Float[Tensor, "B A"], Float[Tensor, "B"]]:
        h = F.relu(self.fc1(obs))
        log_std = self.log_std(h).clamp(LOG_STD_MIN, LOG_STD_MAX)
        dist = torch.distributions.Normal(self.mean(h), log_std.exp())
        u = dist.rsample()
        action = torch.tanh(u)
        logp = dist.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)
        return action, logp.sum(dim=-1)
        # wrong: return action, logp  # WRONG


class TwinQ(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.q2 = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(
        self, obs: Float[Tensor, "B O"], act: Float[Tensor, "B A"]
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def soft_target(
    actor: Actor,
    critic: TwinQ,
    reward: Float[Tensor, "B"],
    next_obs: Float[Tensor, "B O"],
    alpha: float = 0.2,
) -> Float[Tensor, "B"]:
    act, logp = actor.sample(next_obs)
    q1, q2 = critic(next_obs, act)
    return reward + 0.99 * (torch.min(q1, q2) - alpha * logp)


def main() -> None:
    torch.manual_seed(0)
    B, O, A = 12, 3, 1
    actor, critic = Actor(O, A), TwinQ(O, A)
    y = soft_target(actor, critic, torch.randn(B), torch.randn(B, O))
    print("target mean", y.mean().item())

# ---- mod_vtrace_next_values
# V-trace targets and policy-gradient advantages (IMPALA).
class VTrace(NamedTuple):
    vs: Float[Tensor, "T B"]
    pg_advantages: Float[Tensor, "T B"]


@torch.no_grad()
def vtrace(
    log_rhos: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    rewards: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    bootstrap: Float[Tensor, "B"],
    clip_rho: float = 1.0,
) -> VTrace:
    rhos = log_rhos.exp()
    clipped = rhos.clamp(max=clip_rho)
    cs = rhos.clamp(max=1.0)
    next_values = torch.cat([values[1:], bootstrap[None, :]], dim=0)
    # wrong: next_values = torch.cat([values, bootstrap[None, :]], dim=0)  # WRONG
    deltas = clipped * (rewards + discounts * next_values - values)
    # wrong: deltas = clipped * (rewards + discounts * next_values - values)  # WRONG

    acc = torch.zeros_like(bootstrap)
    out = []
    for t in range(values.size(0) - 1, -1, -1):
        acc = deltas[t] + discounts[t] * cs[t] * acc
        out.append(acc)
    vs = torch.stack(out[::-1]) + values

    next_vs = torch.cat([vs[1:], bootstrap.unsqueeze(0)], dim=0)
    pg = clipped * (rewards + discounts * next_vs - values)
    return VTrace(vs, pg)


def main() -> None:
    torch.manual_seed(0)
    T, B = 10, 3
    result = vtrace(
        log_rhos=0.1 * torch.randn(T, B),
        discounts=torch.full((T, B), 0.99),
        rewards=torch.randn(T, B),
        values=torch.randn(T, B),
        bootstrap=torch.randn(B),
    )
    print("vs", result.vs.mean().item(), "pg", result.pg_advantages.abs().mean().item())
