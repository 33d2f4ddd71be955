"""Programs of people who had not seen the checker, each below its name; a mark makes the mistake in it."""

# ---- full_vloss_s01
import torch
from torch import Tensor, nn
from jaxtyping import Float


class Critic(nn.Module):
    def __init__(self, obs_dim: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, obs: Float[Tensor, "N D"]) -> Float[Tensor, "N 1"]:
        return self.net(obs)


def value_loss(critic: Critic, obs: Float[Tensor, "N D"], returns: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    values = critic(obs).squeeze(-1)
    # wrong: values = critic(obs)  # WRONG: (N, 1) against (N,)
    return ((values - returns) ** 2).mean()


def main() -> None:
    torch.manual_seed(0)
    critic = Critic(4, 8)
    print(value_loss(critic, torch.randn(6, 4), torch.randn(6)).item())


main()

# ---- full_qtarget_s02
import torch
from torch import Tensor
from jaxtyping import Bool, Float, Int


def q_target(
    q_next: Float[Tensor, "N A"], rew: Float[Tensor, "N"], done: Bool[Tensor, "N"], gamma: float
) -> Float[Tensor, "N"]:
    best = q_next.max(dim=1).values
    # wrong: best = q_next.max(dim=0).values  # WRONG: maximum over rows, (A,)
    return rew + gamma * best * (~done).float()


def td_error(q: Float[Tensor, "N A"], act: Int[Tensor, "N"], target: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    chosen = q.gather(1, act.unsqueeze(1)).squeeze(1)
    return chosen - target


def main() -> None:
    torch.manual_seed(0)
    q = torch.randn(8, 3)
    target = q_target(torch.randn(8, 3), torch.randn(8), torch.zeros(8, dtype=torch.bool), 0.9)
    print(td_error(q, torch.randint(0, 3, (8,)), target).abs().mean().item())


main()

# ---- full_gather_s03
import torch
from torch import Tensor
from jaxtyping import Float, Int


def token_logp(logits: Float[Tensor, "B L V"], ids: Int[Tensor, "B L"]) -> Float[Tensor, "B L-1"]:
    logp = logits[:, :-1].log_softmax(dim=-1)
    labels = ids[:, 1:].unsqueeze(-1)
    # wrong: labels = ids[:, 1:]  # WRONG: no axis for the vocabulary
    return torch.gather(logp, -1, labels).squeeze(-1)


def main() -> None:
    torch.manual_seed(0)
    out = token_logp(torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5)))
    print(out.shape)


main()

# ---- full_gae_s04
import torch
from torch import Tensor
from jaxtyping import Float


def gae(
    rew: Float[Tensor, "T B"], values: Float[Tensor, "T+1 B"], done: Float[Tensor, "T B"], gamma: float, lam: float
) -> Float[Tensor, "T B"]:
    deltas = rew + gamma * values[1:] * (1 - done) - values[:-1]
    # wrong: deltas = rew + gamma * values[1:] * (1 - done) - values  # WRONG: T+1 values
    adv = torch.zeros_like(rew)
    last = torch.zeros_like(rew[0])
    for t in reversed(range(rew.shape[0])):
        last = deltas[t] + gamma * lam * (1 - done[t]) * last
        adv[t] = last
    return adv


def main() -> None:
    torch.manual_seed(0)
    print(gae(torch.randn(5, 3), torch.randn(6, 3), torch.zeros(5, 3), 0.99, 0.95).sum().item())


main()

# ---- full_attention_s05
import torch
from torch import Tensor, nn
from jaxtyping import Float


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        b, l, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, l, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(b, l, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(b, l, self.heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        # wrong: scores = q @ k / self.head_dim**0.5  # WRONG: keys not transposed
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, l, d))


def main() -> None:
    torch.manual_seed(0)
    print(Attention(12, 3)(torch.randn(2, 5, 12)).sum().item())


main()

# ---- full_notdone_s06
import torch
from torch import Tensor
from jaxtyping import Bool, Float


def n_step(
    rew: Float[Tensor, "N"], done: Bool[Tensor, "N"], next_value: Float[Tensor, "N"], gamma: float
) -> Float[Tensor, "N"]:
    alive = 1.0 - done.float()
    # wrong: alive = 1 - done  # WRONG: minus of a bool tensor
    return rew + gamma * alive * next_value


def main() -> None:
    torch.manual_seed(0)
    print(n_step(torch.randn(4), torch.tensor([False, True, False, False]), torch.randn(4), 0.9).sum().item())


main()

# ---- full_grpo_s07
import torch
from torch import Tensor
from jaxtyping import Bool, Float


def group_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    mean = rewards.mean(dim=1, keepdim=True)
    # wrong: mean = rewards.mean(dim=1)  # WRONG: keepdim forgotten
    std = rewards.std(dim=1, keepdim=True)
    return (rewards - mean) / (std + 1e-6)


def loss(logp: Float[Tensor, "P G R"], adv: Float[Tensor, "P G"], mask: Bool[Tensor, "P G R"]) -> Float[Tensor, ""]:
    per_token = -logp * adv.unsqueeze(-1)
    return (per_token * mask).sum() / mask.sum()


def main() -> None:
    torch.manual_seed(0)
    adv = group_advantages(torch.randn(3, 4))
    print(loss(torch.randn(3, 4, 5), adv, torch.ones(3, 4, 5, dtype=torch.bool)).item())


main()

# ---- full_tokenadv_s08
import torch
from torch import Tensor
from jaxtyping import Bool, Float


def policy_loss(
    logp: Float[Tensor, "N R"], old_logp: Float[Tensor, "N R"], adv: Float[Tensor, "N"], mask: Bool[Tensor, "N R"]
) -> Float[Tensor, ""]:
    ratio = (logp - old_logp).exp()
    surrogate = ratio * adv.unsqueeze(1)
    # wrong: surrogate = ratio * adv  # WRONG: one number per sample against tokens
    return -(surrogate * mask).sum() / mask.sum()


def main() -> None:
    torch.manual_seed(0)
    n, r = 4, 4
    print(policy_loss(torch.randn(n, r), torch.randn(n, r), torch.randn(n), torch.ones(n, r, dtype=torch.bool)).item())


main()

# ---- full_conv_s09
import torch
from torch import Tensor, nn
from jaxtyping import Float


class Pixels(nn.Module):
    def __init__(self, n_act: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 8, kernel_size=4, stride=2), nn.ReLU(), nn.Conv2d(8, 16, kernel_size=3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(16 * 7 * 7, n_act)
        # wrong: self.head = nn.Linear(16 * 8 * 8, n_act)  # WRONG: 32 -> 15 -> 7

    def forward(self, img: Float[Tensor, "N 3 32 32"]) -> Float[Tensor, "N A"]:
        return self.head(self.conv(img).flatten(1))


def main() -> None:
    torch.manual_seed(0)
    print(Pixels(4)(torch.randn(2, 3, 32, 32)).sum().item())


main()

# ---- full_record_s10
import numpy as np
from jaxtyping import Float, Int
from typedbatch import BatchRecord


class Steps(BatchRecord):
    obs: Float[np.ndarray, "N D"]
    act: Int[np.ndarray, "N"]
    rew: Float[np.ndarray, "N"]


def collect(n: int) -> Steps:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n + 1, 4))
    act = rng.integers(0, 2, size=n)
    return Steps(obs=obs[:-1], act=act, rew=rng.normal(size=n))
    # wrong: return Steps(obs=obs, act=act, rew=rng.normal(size=n))  # WRONG: one row more


def mean_reward(steps: Steps) -> float:
    return float((steps.rew * (steps.obs.sum(axis=1) > 0)).mean())


print(mean_reward(collect(6)))

# ---- full_onehot_s12
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, obs_dim: int, n_act: int) -> None:
        super().__init__()
        self.n_act = n_act
        self.net = nn.Linear(obs_dim + n_act, obs_dim)

    def forward(self, obs: Float[Tensor, "N D"], act: Float[Tensor, "N"]) -> Float[Tensor, "N D"]:
        hot = F.one_hot(act.long(), self.n_act).float()
        # wrong: hot = F.one_hot(act, self.n_act).float()  # WRONG: act has floats
        return self.net(torch.cat([obs, hot], dim=-1))


torch.manual_seed(0)
print(Model(3, 2)(torch.randn(4, 3), torch.tensor([0.0, 1.0, 1.0, 0.0])).sum().item())

# ---- part_selfcontra_s13
import torch
from torch import nn
from jaxtyping import Float


class Actor(nn.Module):
    def __init__(self, n_act):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, 32),
            nn.Tanh(),
            nn.Linear(32, n_act),
            # wrong: nn.Linear(64, n_act),  # WRONG: 32 features come in
        )

    def forward(self, obs: Float[torch.Tensor, "N 4"]):
        return torch.distributions.Categorical(logits=self.net(obs))


def main():
    torch.manual_seed(0)
    dist = Actor(2)(torch.randn(3, 4))
    print(dist.entropy().mean().item())


if __name__ == "__main__":
    main()

# ---- part_timeswap_s14
import torch
from jaxtyping import Float
from torch import Tensor


class RewardNorm:
    def __init__(self, gamma: float):
        self.gamma = gamma

    def returns(self, rew: Float[Tensor, "T B"]):
        out = torch.zeros_like(rew)
        running = torch.zeros(rew.shape[1])
        # wrong: running = torch.zeros(rew.shape[0])  # WRONG: T numbers, one for each of B is meant
        for t in reversed(range(rew.shape[0])):
            running = rew[t] + self.gamma * running
            out[t] = running
        return out


def main():
    torch.manual_seed(0)
    print(RewardNorm(0.9).returns(torch.randn(6, 3)).sum().item())


main()

# ---- part_discounts_s15
import numpy as np
from jaxtyping import Float


def discounted(rew: Float[np.ndarray, "T"], gamma):
    steps = len(rew)
    discounts = gamma ** np.arange(steps)
    # wrong: discounts = gamma ** np.arange(steps + 1)  # WRONG: one discount more than rewards
    return (discounts * rew).sum()


def main():
    rew = np.random.default_rng(0).normal(size=12)
    print(discounted(rew, 0.9))


main()

# ---- part_catstack_s16
import torch
from torch import Tensor, nn
from jaxtyping import Float


class QNet(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim + act_dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, obs: Float[Tensor, "N D"], act: Float[Tensor, "N A"]):
        x = torch.cat([obs, act], dim=-1)
        # wrong: x = torch.stack([obs, act], dim=-1)  # WRONG: stack for cat
        return self.net(x).squeeze(-1)


def main():
    torch.manual_seed(0)
    print(QNet(3, 2)(torch.randn(5, 3), torch.randn(5, 2)).shape)


main()

# ---- part_ce_s17
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


class LM(torch.nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = torch.nn.Embedding(vocab, dim)
        self.head = torch.nn.Linear(dim, vocab)

    def forward(self, ids: Int[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        return self.head(self.emb(ids))


def lm_loss(model: LM, ids: Int[Tensor, "B L"]):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    # wrong: return F.cross_entropy(logits[:, :-1], ids[:, 1:])  # WRONG: classes must be axis 1


def main():
    torch.manual_seed(0)
    print(lm_loss(LM(11, 6), torch.randint(0, 11, (3, 5))).item())


main()

# ---- part_dist_s18
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Normal


class Gaussian(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.mu = nn.Linear(obs_dim, act_dim)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def log_prob(self, obs: Float[Tensor, "N D"], act: Float[Tensor, "N A"]):
        dist = Normal(self.mu(obs), self.log_std.exp())
        return dist.log_prob(act).sum(-1)
        # wrong: return dist.log_prob(act)  # WRONG: one number for each action dimension


def loss(policy: Gaussian, obs: Float[Tensor, "N D"], act: Float[Tensor, "N A"], adv: Float[Tensor, "N"]):
    return -(policy.log_prob(obs, act) * adv).mean()


def main():
    torch.manual_seed(0)
    print(loss(Gaussian(3, 2), torch.randn(5, 3), torch.randn(5, 2), torch.randn(5)).item())


main()

# ---- part_lstm_s19
import torch
from jaxtyping import Float
from torch import Tensor, nn


class Memory(nn.Module):
    def __init__(self, obs_dim, hidden, n_act):
        super().__init__()
        self.lstm = nn.LSTM(obs_dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, n_act)

    def forward(self, obs: Float[Tensor, "B T D"]):
        n = obs.shape[0]
        state = (torch.zeros(1, n, 16), torch.zeros(1, n, 16))
        # wrong: state = (torch.zeros(n, 1, 16), torch.zeros(n, 1, 16))  # WRONG: layers come first
        out, _ = self.lstm(obs, state)
        return self.head(out[:, -1])


def main():
    torch.manual_seed(0)
    print(Memory(4, 16, 2)(torch.randn(3, 5, 4)).sum().item())


main()

# ---- part_softmaxaxis_s20
import torch
from jaxtyping import Float
from torch import Tensor, nn


class Pool(nn.Module):
    """Attention over the steps of an episode."""

    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, 2)

    def forward(self, x: Float[Tensor, "B T D"]):
        weights = self.score(x).squeeze(-1).softmax(dim=1)
        pooled = (x * weights.unsqueeze(-1)).sum(dim=1)
        # wrong: pooled = (x * weights.unsqueeze(-1)).sum(dim=-1)  # WRONG: features are summed
        return self.out(pooled)


def main():
    torch.manual_seed(0)
    print(Pool(6)(torch.randn(2, 5, 6)).sum().item())


main()

# ---- part_floatindex_s21
import numpy as np
from jaxtyping import Float
from typedbatch import BatchRecord


class Store(BatchRecord):
    obs: Float[np.ndarray, "N D"]
    rew: Float[np.ndarray, "N"]


def minibatch(store: Store, n):
    size = len(store.rew)
    picks = np.random.randint(0, size, n)
    # wrong: picks = np.floor(np.random.rand(n) * size)  # WRONG: floats as index
    return store.obs[picks], store.rew[picks]


def main():
    np.random.seed(0)
    store = Store(obs=np.zeros((10, 3)), rew=np.arange(10.0))
    obs, rew = minibatch(store, 4)
    print(obs.shape, rew.sum())


main()

# ---- part_rollout_s22
import torch
from torch import Tensor, nn
from typedbatch import RolloutBatchProtocol


class Agent:
    def __init__(self, obs_dim: int):
        self.critic = nn.Sequential(nn.Linear(obs_dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def loss(self, batch: RolloutBatchProtocol[Tensor, Tensor, Tensor]):
        v = self.critic(batch.obs)
        with torch.no_grad():
            target = batch.rew.unsqueeze(-1) + 0.9 * self.critic(batch.obs_next)
            # wrong: target = batch.rew + 0.9 * self.critic(batch.obs_next)  # WRONG: (N,) and (N, 1)
        return ((v - target) ** 2).mean()


def main():
    from typedbatch import Batch, RolloutBatch

    torch.manual_seed(0)
    batch = RolloutBatch[Tensor](
        obs=torch.randn(5, 3), obs_next=torch.randn(5, 3), act=torch.zeros(5), rew=torch.randn(5),
        terminated=torch.zeros(5).bool(), truncated=torch.zeros(5).bool(), info=Batch(),
    )
    print(Agent(3).loss(batch).item())


main()

# ---- part_dueling_s23
import torch
from jaxtyping import Float
from torch import Tensor, nn


class Dueling(nn.Module):
    def __init__(self, obs_dim, n_act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU())
        self.value = nn.Linear(32, 1)
        self.adv = nn.Linear(32, n_act)

    def forward(self, obs: Float[Tensor, "N D"]) -> Float[Tensor, "N A"]:
        h = self.body(obs)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(dim=-1, keepdim=True)
        # wrong: return self.value(h) + adv - adv.mean(dim=-1)  # WRONG: keepdim forgotten


def main():
    torch.manual_seed(0)
    print(Dueling(4, 3)(torch.randn(5, 4)).shape)


main()

# ---- part_mask_s24
import torch
from jaxtyping import Float, Int
from torch import Tensor


def masked_kl(logp: Float[Tensor, "N R"], ref: Float[Tensor, "N R"], mask: Int[Tensor, "N R"]):
    kl = (ref - logp).exp() - (ref - logp) - 1
    return kl.masked_fill(mask == 0, 0.0).sum() / mask.sum()
    # wrong: return kl.masked_fill(~mask, 0.0).sum() / mask.sum()  # WRONG: ~ of integers


def main():
    torch.manual_seed(0)
    print(masked_kl(torch.randn(2, 4), torch.randn(2, 4), torch.ones(2, 4, dtype=torch.long)).item())


main()

# ---- none_ppo_s25
import torch
from torch import nn
from typedbatch import Batch


class PPO:
    def __init__(self, obs_dim, n_act):
        self.actor = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, n_act))
        self.critic = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, 1))

    def update(self, batch):
        dist = torch.distributions.Categorical(logits=self.actor(batch.obs))
        logp = dist.log_prob(batch.act)
        adv = batch.ret - self.critic(batch.obs).squeeze(-1).detach()
        # wrong: adv = batch.ret - self.critic(batch.obs).detach()  # WRONG: (N,) - (N, 1)
        return -(logp * adv).mean()


def main():
    torch.manual_seed(0)
    batch = Batch(obs=torch.randn(6, 4), act=torch.randint(0, 2, (6,)), ret=torch.randn(6))
    print(PPO(4, 2).update(batch).item())


main()

# ---- none_conv_s26
import numpy as np
import torch
from torch import nn
from typedbatch import Batch


class AtariNet(nn.Module):
    def __init__(self, n_act):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 32, 8, stride=4)
        self.conv2 = nn.Conv2d(32, 64, 4, stride=2)
        self.conv3 = nn.Conv2d(64, 64, 3, stride=1)
        self.fc = nn.Linear(64 * 7 * 7, 512)
        # wrong: self.fc = nn.Linear(64 * 9 * 9, 512)  # WRONG: that is before conv3
        self.out = nn.Linear(512, n_act)

    def forward(self, x):
        x = torch.relu(self.conv1(x / 255.0))
        x = torch.relu(self.conv2(x))
        x = torch.relu(self.conv3(x))
        x = x.view(x.size(0), -1)
        return self.out(torch.relu(self.fc(x)))


def main():
    batch = Batch(obs=np.zeros((2, 4, 84, 84), np.float32))
    net = AtariNet(6)
    print(net(torch.as_tensor(batch.obs)).shape)


main()

# ---- none_buffer_s27
import numpy as np
from typedbatch import Batch


class Ring:
    def __init__(self, size, obs_dim):
        self.obs = np.zeros((size, obs_dim), np.float32)
        self.act = np.zeros(size, np.int64)
        self.rew = np.zeros(size, np.float32)
        # wrong: self.rew = np.zeros((size, 1), np.float32)
        self.done = np.zeros(size, bool)
        self.pos = 0

    def add(self, obs, act, rew, done):
        self.obs[self.pos], self.act[self.pos], self.rew[self.pos], self.done[self.pos] = obs, act, rew, done
        self.pos += 1

    def sample(self, n):
        idx = np.random.randint(0, self.pos, n)
        return Batch(obs=self.obs[idx], act=self.act[idx], rew=self.rew[idx], done=self.done[idx])


def targets(batch, q_next):
    return batch.rew + 0.9 * q_next.max(axis=1) * ~batch.done
    # wrong: return batch.rew + 0.9 * q_next.max(axis=1) * ~batch.done  # WRONG: rew is (n, 1) from the buffer


def main():
    np.random.seed(0)
    ring = Ring(10, 3)
    for i in range(10):
        ring.add(np.ones(3), i % 2, 1.0, False)
    print(targets(ring.sample(4), np.random.rand(4, 2)).shape)


main()

# ---- none_sac_s29
import copy

import torch
from torch import nn
from typedbatch import Batch


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class SAC:
    def __init__(self, obs_dim, act_dim):
        self.actor = mlp([obs_dim, 16, 2 * act_dim])
        self.q = mlp([obs_dim + act_dim, 16, 1])
        self.q_target = copy.deepcopy(self.q)

    def act(self, obs):
        mu, log_std = self.actor(obs).chunk(2, dim=-1)
        dist = torch.distributions.Normal(mu, log_std.exp())
        act = dist.rsample()
        return act, dist.log_prob(act).sum(-1, keepdim=True)
        # wrong: return act, dist.log_prob(act).sum(-1)

    def target(self, batch):
        act, logp = self.act(batch.obs_next)
        q = self.q_target(torch.cat([batch.obs_next, act], -1))
        return batch.rew.unsqueeze(-1) + 0.9 * (q - 0.2 * logp)
        # wrong: return batch.rew.unsqueeze(-1) + 0.9 * (q - 0.2 * logp)  # WRONG: (N, 1) - (N,)


def main():
    torch.manual_seed(0)
    batch = Batch(obs_next=torch.randn(5, 3), rew=torch.randn(5))
    print(SAC(3, 2).target(batch).shape)


main()

# ---- none_gae_s30
import numpy as np
from typedbatch import Batch


def gae(rew, values, done, gamma=0.99, lam=0.95):
    steps, envs = rew.shape
    adv = np.zeros((steps, envs))
    last = np.zeros(envs)
    for t in reversed(range(steps)):
        delta = rew[t] + gamma * values[t + 1] * (1 - done[t]) - values[t]
        last = delta + gamma * lam * (1 - done[t]) * last
        adv[t] = last
    return adv


def main():
    rng = np.random.default_rng(0)
    batch = Batch(rew=rng.normal(size=(8, 3)), done=np.zeros((8, 3)))
    values = rng.normal(size=(9, 3))
    adv = gae(batch.rew, values, batch.done)
    returns = adv + values[:-1]
    # wrong: returns = adv + values  # WRONG: 8 against 9 steps
    print(returns.mean())


main()

# ---- none_frames_s31
import torch
from torch import nn
from typedbatch import Batch


class World(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.enc = nn.Linear(obs_dim, hidden)
        self.cell = nn.GRUCell(hidden + act_dim, hidden)
        # wrong: self.cell = nn.GRUCell(hidden, hidden)  # WRONG: the actions are not counted
        self.dec = nn.Linear(hidden, obs_dim)

    def rollout(self, obs, acts):
        h = torch.zeros(obs.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(obs.shape[0]):
            x = torch.cat([self.enc(obs[t]), acts[t]], dim=-1)
            h = self.cell(x, h)
            outs.append(self.dec(h))
        return torch.stack(outs)


def main():
    torch.manual_seed(0)
    batch = Batch(obs=torch.randn(5, 2, 6), act=torch.randn(5, 2, 3))
    model = World(6, 3, 16)
    print(((model.rollout(batch.obs, batch.act) - batch.obs) ** 2).mean().item())


main()

# ---- none_bc_s32
import torch
import torch.nn.functional as F
from torch import nn
from typedbatch import Batch


class Cloner:
    def __init__(self, obs_dim, n_act):
        self.net = nn.Sequential(nn.Linear(obs_dim, 16), nn.ReLU(), nn.Linear(16, n_act))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, batch):
        loss = F.cross_entropy(self.net(batch.obs), batch.act)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def main():
    torch.manual_seed(0)
    batch = Batch(obs=torch.randn(8, 4), act=torch.randint(0, 3, (8,)))
    # wrong: batch = Batch(obs=torch.randn(8, 4), act=torch.randint(0, 3, (8, 1)))  # WRONG: labels of rank 2
    cloner = Cloner(4, 3)
    for _ in range(2):
        print(cloner.step(batch))


main()

# ---- none_dpo_s33
import torch
import torch.nn.functional as F
from typedbatch import Batch


def seq_logp(logits, ids, mask):
    logp = logits[:, :-1].log_softmax(-1)
    picked = logp.gather(2, ids[:, 1:, None]).squeeze(2)
    return (picked * mask[:, 1:]).sum(1)
    # wrong: return (picked * mask).sum(1)  # WRONG: L-1 against L


def dpo(batch, beta=0.1):
    chosen = seq_logp(batch.chosen_logits, batch.chosen, batch.chosen_mask)
    rejected = seq_logp(batch.rejected_logits, batch.rejected, batch.rejected_mask)
    return -F.logsigmoid(beta * (chosen - rejected)).mean()


def main():
    torch.manual_seed(0)
    ids = torch.randint(0, 9, (3, 6))
    batch = Batch(
        chosen=ids, rejected=ids, chosen_logits=torch.randn(3, 6, 9), rejected_logits=torch.randn(3, 6, 9),
        chosen_mask=torch.ones(3, 6), rejected_mask=torch.ones(3, 6),
    )
    print(dpo(batch).item())


main()

# ---- none_widthdata_s34
import torch
from torch import nn
from typedbatch import Batch


class Policy(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.body = nn.Linear(n_in, 32)
        self.head = nn.Linear(32, n_out)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def main():
    torch.manual_seed(0)
    batch = Batch(obs=torch.randn(7, 5), act=torch.randint(0, 3, (7,)))
    policy = Policy(batch.obs.shape[-1], 3)
    # wrong: policy = Policy(batch.obs.shape[0], 3)  # WRONG: the number of rows as the width
    print(policy(batch.obs).shape)


main()

# ---- none_ensemble_s35
import torch
from torch import nn
from typedbatch import Batch


class Ensemble(nn.Module):
    def __init__(self, n, obs_dim):
        super().__init__()
        self.nets = nn.ModuleList([nn.Linear(obs_dim, 1) for _ in range(n)])

    def forward(self, obs):
        return torch.stack([net(obs).squeeze(-1) for net in self.nets])
        # wrong: return torch.cat([net(obs).squeeze(-1) for net in self.nets])  # WRONG: cat for stack


def loss(ensemble, batch):
    q = ensemble(batch.obs)
    return ((q.min(dim=0).values - batch.target) ** 2).mean() + ((q - batch.target) ** 2).sum(0).mean()


def main():
    torch.manual_seed(0)
    batch = Batch(obs=torch.randn(6, 4), target=torch.randn(6))
    print(loss(Ensemble(3, 4), batch).item())


main()
