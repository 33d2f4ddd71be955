"""MPO with exact sums over discrete actions: E-step with a learned temperature, M-step with a KL multiplier, hard copies every 3."""
import copy
import torch
import torch.nn.functional as F
from torch import nn
from typedbatch import RolloutBatch

N, D, A, GAMMA, EPS_E, EPS_M = 64, 5, 4, 0.97, 0.1, 0.01

def setup(seed: int = 0):
    torch.manual_seed(seed)
    nets = nn.ModuleDict({name: nn.Sequential(nn.Linear(D, 32), nn.ELU(), nn.Linear(32, A)) for name in ("pi", "q")})
    slow, duals, updates = copy.deepcopy(nets).requires_grad_(False), torch.tensor([1.0, 1.0], requires_grad=True), 0
    opt, dual_opt = torch.optim.Adam(nets.parameters(), lr=1e-3), torch.optim.Adam([duals], lr=1e-2)
    def draw():
        u, obs = torch.rand(N), torch.randn(N, D)
        act = torch.distributions.Categorical(logits=slow["pi"](obs)).sample()
        return (RolloutBatch(obs=obs, act=act, rew=obs.gather(1, act[:, None]).squeeze(1), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=torch.randn(N, D), info={}),)
    def update(batch):
        nonlocal updates
        v_next = (slow["pi"](batch.obs_next).softmax(1) * slow["q"](batch.obs_next)).sum(1)
        target = batch.rew + GAMMA * ~batch.terminated * v_next
        critic_loss = F.mse_loss(nets["q"](batch.obs).gather(1, batch.act[:, None]).squeeze(1), target)
        eta, alpha = F.softplus(duals) + 1e-6  # temperature, and multiplier of the trust region
        logp_slow, q_slow, logp = slow["pi"](batch.obs).log_softmax(1), slow["q"](batch.obs), nets["pi"](batch.obs).log_softmax(1)
        temperature_loss = eta * (EPS_E + (logp_slow + q_slow / eta).logsumexp(1).mean())
        improved = (logp_slow + q_slow / eta.detach()).softmax(1)
        kl = F.kl_div(logp, logp_slow, reduction="batchmean", log_target=True)  # KL(slow || new)
        actor_loss = -(improved * logp).sum(1).mean() + alpha.detach() * kl
        dual_loss = temperature_loss + alpha * (EPS_M - kl.detach())
        opt.zero_grad()
        dual_opt.zero_grad()
        (critic_loss + actor_loss + dual_loss).backward()
        opt.step()
        dual_opt.step()
        if (updates := updates + 1) % 3 == 0:
            slow.load_state_dict(nets.state_dict())
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "dual": dual_loss.item()}
    return update, draw
