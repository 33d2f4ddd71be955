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
