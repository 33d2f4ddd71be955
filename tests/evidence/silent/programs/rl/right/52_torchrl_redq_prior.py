"""REDQ in TorchRL's nested names, critics stacked with torch.func and run by vmap, regularised by the KL to a frozen prior policy."""
import copy
import torch
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from torch.func import functional_call, stack_module_state, vmap
from typedbatch import Batch

M, SUBSET, GAMMA, TAU, ALPHA = 5, 2, 0.95, 0.01, 0.1

def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.SiLU(), nn.Linear(32, o))

class TanhNormalActor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(3, 4)
    def get_dist(self, obs):
        loc, scale = self.net(obs).chunk(2, -1)
        base = Independent(Normal(loc, nn.functional.softplus(scale) + 1e-2), 1)
        return TransformedDistribution(base, [TanhTransform(cache_size=1)])

class REDQLoss:
    def __init__(self, actor, prior, critics):
        self.actor, self.prior = actor, prior
        self._meta = copy.deepcopy(critics[0]).to("meta")
        self.qvalue_params, _ = stack_module_state(critics)
        self.target_params = {k: v.detach().clone() for k, v in self.qvalue_params.items()}

    def qvalues(self, params, obs, action):  # (M or fewer, N)
        return vmap(lambda p, x: functional_call(self._meta, p, (x,)).squeeze(-1), (0, None))(params, torch.cat([obs, action], -1))

    def divergence(self, obs):
        dist = self.actor.get_dist(obs)
        action = dist.rsample()
        return action, dist.log_prob(action) - self.prior.get_dist(obs).log_prob(action)

    def qvalue_loss(self, td):
        with torch.no_grad():
            action, kl = self.divergence(td.next.observation)
            chosen = torch.randperm(M)[:SUBSET]
            value = self.qvalues({k: v[chosen] for k, v in self.target_params.items()}, td.next.observation, action).amin(0) - ALPHA * kl
            target = td.next.reward + GAMMA * (~td.next.terminated).float() * value
        return (self.qvalues(self.qvalue_params, td.observation, td.action) - target).pow(2).mean(-1).sum(0)

    def actor_loss(self, td):
        action, kl = self.divergence(td.observation)
        return (ALPHA * kl - self.qvalues({k: v.detach() for k, v in self.qvalue_params.items()}, td.observation, action).mean(0)).mean()

def setup(seed: int = 0):
    gen = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    actor = TanhNormalActor()
    loss_module = REDQLoss(actor, copy.deepcopy(actor).requires_grad_(False), [mlp(5, 1) for _ in range(M)])
    optims = {"qvalue": torch.optim.Adam(loss_module.qvalue_params.values(), 1e-3), "actor": torch.optim.Adam(actor.parameters(), 3e-4)}

    def draw(n=64):  # independent steps of a point with a drift, which ends outside of the unit cube
        obs, action = 2 * torch.rand(n, 3, generator=gen) - 1, 1.98 * torch.rand(n, 2, generator=gen) - 0.99
        after = obs + 0.3 * torch.cat([action, action.sum(-1, keepdim=True) - obs[:, :1]], -1)
        out = (after.abs() > 1.2).any(-1)
        step = Batch(observation=after, reward=1 - after.pow(2).sum(-1) - 2 * out, terminated=out, done=out)
        return (Batch(observation=obs, action=action, next=step),)

    def update(td):
        losses = {}
        for name, optim in optims.items():
            optim.zero_grad()
            losses[name] = getattr(loss_module, f"{name}_loss")(td)
            losses[name].backward()
            optim.step()
        torch._foreach_lerp_(list(loss_module.target_params.values()), [v.detach() for v in loss_module.qvalue_params.values()], TAU)
        return {name: loss.item() for name, loss in losses.items()}

    return update, draw
