"""PPO with three categorical heads; the stored actions are transposed to one row per head for their log-probabilities."""
# wrong: """Stored actions (N, 3) are reshaped to (3, N) instead of transposed, so log-probabilities are of other rows' actions."""

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord

NVEC = (4, 4, 4)
HORIZON, NUM, GAMMA, LAM, CLIP = 16, 12, 0.95, 0.9, 0.2


class Episode(BatchRecord):
    """Whole episodes of HORIZON steps, one environment after another, with a row per step."""

    obs: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor
    logp: Tensor
    value: Tensor


class Ready(BatchRecord):
    obs: Tensor
    act: Tensor
    logp_old: Tensor
    adv: Tensor
    returns: Tensor


class Mixer:
    """Three knobs with four settings each have to follow three drifting levels; the clock is the last observation."""

    def __init__(self, num: int) -> None:
        self.num = num
        self.reset()

    def reset(self) -> Tensor:
        self.level, self.t = torch.rand(self.num, 3) * 3, 0
        return self.obs()

    def obs(self) -> Tensor:
        return torch.cat([self.level - 1.5, torch.full((self.num, 1), self.t / HORIZON)], -1)

    def step(self, act: Tensor) -> tuple[Tensor, Tensor, bool]:
        weights = torch.tensor([1.0, 0.6, 0.3])
        rew = 1 - ((act - self.level).abs() * weights).sum(-1)
        self.level = (self.level + 0.2 * torch.randn(self.num, 3) + 0.1 * (act - self.level)).clamp(0, 3)
        self.t += 1
        return self.obs(), rew, self.t == HORIZON


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.logits, self.v = nn.Linear(64, sum(NVEC)), nn.Linear(64, 1)

    def forward(self, obs: Tensor) -> tuple[list[Categorical], Tensor]:
        h = self.body(obs)
        return [Categorical(logits=part) for part in self.logits(h).split(NVEC, -1)], self.v(h).squeeze(-1)

    @torch.no_grad()
    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads, value = self(obs)
        acts = [head.sample() for head in heads]
        logp = sum(head.log_prob(act) for head, act in zip(heads, acts))
        return torch.stack(acts, -1), logp, value

    def evaluate(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads, value = self(obs)
        per_head = act.transpose(0, 1)
        # wrong: per_head = act.reshape(len(NVEC), -1)
        logp = torch.stack([head.log_prob(a) for head, a in zip(heads, per_head)]).sum(0)
        return logp, torch.stack([head.entropy() for head in heads]).sum(0), value


def gae(batch: Episode) -> Ready:
    rew, value, last = (x.view(NUM, HORIZON) for x in (batch.rew, batch.value, batch.terminated))
    adv, running = torch.zeros_like(rew), torch.zeros(NUM)
    value_next = torch.cat([value[:, 1:], torch.zeros(NUM, 1)], 1)  # every episode ends at HORIZON
    for t in reversed(range(HORIZON)):
        going = (~last[:, t]).float()
        running = rew[:, t] + GAMMA * going * value_next[:, t] - value[:, t] + GAMMA * LAM * going * running
        adv[:, t] = running
    returns = adv + value
    adv = (adv - adv.mean()) / adv.std()
    return Ready(obs=batch.obs, act=batch.act, logp_old=batch.logp, adv=adv.flatten(), returns=returns.flatten())


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    policy, env = Policy(), Mixer(NUM)
    optim = torch.optim.Adam(policy.parameters(), 1e-3)

    def draw() -> tuple[Episode]:
        obs, over, rows = env.reset(), False, []
        while not over:
            act, logp, value = policy.sample(obs)
            after, rew, over = env.step(act)
            rows.append((obs, act, rew, torch.full((NUM,), over), logp, value))
            obs = after
        columns = [torch.stack(column, 1).flatten(0, 1) for column in zip(*rows)]
        return (Episode(**dict(zip(("obs", "act", "rew", "terminated", "logp", "value"), columns))),)

    def update(batch: Episode) -> dict[str, float]:
        ready = gae(batch)
        for _ in range(4):
            for part in ready.split(48, rng=torch.default_generator):
                logp, entropy, value = policy.evaluate(part.obs, part.act)
                ratio = (logp - part.logp_old).exp()
                surrogate = torch.min(ratio * part.adv, ratio.clamp(1 - CLIP, 1 + CLIP) * part.adv)
                value_loss = (value - part.returns).pow(2).mean()
                loss = -surrogate.mean() + 0.25 * value_loss - 0.01 * entropy.mean()
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optim.step()
        return {"loss": loss.item(), "value": value_loss.item(), "entropy": entropy.mean().item()}

    return update, draw
