"""Evolution strategies, no backward: antithetic perturbations with fitness in the batch, centered ranks, Adam on a written .grad."""
import torch
from torch import nn
from typedbatch import Batch

PAIRS, D, A, SIGMA, HORIZON = 32, 4, 2, 0.1, 10

class ES:
    def __init__(self, seed):
        self.policy = nn.Linear(D, A, bias=False).requires_grad_(False)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=0.02, maximize=True)
        self.g = torch.Generator().manual_seed(seed)

    def draw(self):
        half = torch.randn(PAIRS, A, D, generator=self.g)
        noise = torch.cat([half, -half])
        weights = self.policy.weight + SIGMA * noise  # (N, A, D)
        state = torch.randn(D, generator=self.g).expand(len(noise), D)  # the same start and wind for all members
        fitness = torch.zeros(len(noise))
        for _ in range(HORIZON):
            act = torch.einsum("nad,nd->na", weights, state).tanh()
            wind = 0.05 * torch.randn(D, generator=self.g)
            state = 0.95 * state + 0.3 * torch.cat([act, -act], dim=1) + wind
            fitness -= state.pow(2).sum(1) + 0.01 * act.pow(2).sum(1)
        return (Batch(noise=noise, fitness=fitness),)

    def update(self, batch):
        n = len(batch.fitness)
        ranks = batch.fitness.argsort().argsort().float() / (n - 1) - 0.5
        ascent = torch.einsum("n,nad->ad", ranks, batch.noise) / (n * SIGMA)
        self.policy.weight.grad = ascent
        self.opt.step()
        return {"fitness": batch.fitness.mean().item(), "norm": ascent.norm().item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    es = ES(seed + 1)
    return es.update, es.draw
