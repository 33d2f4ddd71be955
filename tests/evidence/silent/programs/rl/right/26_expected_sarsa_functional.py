"""Off-policy Expected Sarsa for an epsilon-greedy policy, torch.func.grad of functional_call, hand-written SGD with momentum."""
import torch
from torch import nn
from torch.func import functional_call, grad
from typedbatch import RolloutBatch

N, D, A, GAMMA, EPS, LR, MOMENTUM, TAU = 48, 4, 5, 0.95, 0.1, 0.01, 0.9, 0.02

def setup(seed: int = 0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, A)).requires_grad_(False)
    params = dict(net.named_parameters())
    slow = {name: p.clone() for name, p in params.items()}
    velocity = {name: torch.zeros_like(p) for name, p in params.items()}
    g = torch.Generator().manual_seed(seed + 1)

    def draw():
        obs, u, act = torch.randn(N, D, generator=g), torch.rand(N, generator=g), torch.randint(A, (N,), generator=g)
        return (RolloutBatch(obs=obs, act=act, rew=torch.cos(obs[:, 0] + act), terminated=u < 0.12, truncated=u > 0.96,
                             obs_next=obs.roll(1, dims=1) + 0.1 * torch.randn(N, D, generator=g), info={}),)

    def loss(params, obs, act, target):
        q = functional_call(net, params, (obs,)).gather(1, act[:, None]).squeeze(1)
        return nn.functional.mse_loss(q, target)

    def update(batch):
        q_next = functional_call(net, slow, (batch.obs_next,))
        probs = torch.full_like(q_next, EPS / A)
        probs.scatter_add_(1, q_next.argmax(1, keepdim=True), torch.full((N, 1), 1 - EPS))
        target = batch.rew + GAMMA * ~batch.terminated * (probs * q_next).sum(1)
        gradients = grad(loss)(params, batch.obs, batch.act, target)
        for name, gradient in gradients.items():
            velocity[name].mul_(MOMENTUM).add_(gradient)
            params[name].sub_(LR * velocity[name])  # in place, so the weights of net
            slow[name].lerp_(params[name], TAU)
        return {"loss": loss(params, batch.obs, batch.act, target).item()}

    return update, draw
