"""A small Dreamer: encode sequences, predict latents, imagine, learn a value from the dream."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord


class Latent(BatchRecord):
    """A state of the world model; ``N`` rows."""

    deter: Tensor
    mean: Tensor
    stoch: Tensor


class WorldModel(nn.Module):
    def __init__(self, obs_dim: int = 3, deter: int = 12, stoch: int = 4) -> None:
        super().__init__()
        self.sizes = Batch(deter=deter, stoch=stoch)
        self.encoder = nn.Linear(obs_dim, 8)
        self.cell = nn.GRUCell(stoch + 1, deter)
        self.prior_net, self.post_net = nn.Linear(deter, stoch), nn.Linear(deter + 8, stoch)
        self.decoder, self.reward = nn.Linear(deter + stoch, obs_dim), nn.Linear(deter + stoch, 1)

    def initial(self, n: int) -> Latent:
        deter, stoch = int(self.sizes.deter), int(self.sizes.stoch)
        #! misspelt-read: deter, stoch = int(self.sizes.deter), int(self.sizes.stochastic)
        return Latent(deter=torch.zeros(n, deter), mean=torch.zeros(n, stoch), stoch=torch.zeros(n, stoch))
        #! forgotten-field: return Latent(deter=torch.zeros(n, deter), stoch=torch.zeros(n, stoch))

    def prior(self, state: Latent, action: Tensor) -> Latent:
        deter = self.cell(torch.cat([state.stoch, action], -1), state.deter)
        #! misspelt-read: deter = self.cell(torch.cat([state.stoch, action], -1), state.hidden)
        mean = self.prior_net(deter)
        return Latent(deter=deter, mean=mean, stoch=mean + 0.1 * torch.randn_like(mean))

    def posterior(self, prior: Latent, obs: Tensor) -> Latent:
        mean = self.post_net(torch.cat([prior.deter, torch.relu(self.encoder(obs))], -1))
        return Latent(deter=prior.deter, mean=mean, stoch=mean + 0.1 * torch.randn_like(mean))

    def observe(self, obs: Tensor, action: Tensor) -> tuple[Latent, Batch]:
        state = self.initial(len(obs))
        posts, terms = [], []
        for t in range(obs.shape[1]):
            prior = self.prior(state, action[:, t])
            state = self.posterior(prior, obs[:, t])
            features = torch.cat([state.deter, state.stoch], -1)
            step = Batch(kl=(state.mean - prior.mean).pow(2).sum(-1))
            step.recon = (self.decoder(features) - obs[:, t]).pow(2).sum(-1)
            step.reward = self.reward(features).squeeze(-1)
            terms.append(step)
            posts.append(state)
        return Batch.cat(posts), Batch.stack(terms, axis=1)


def model_loss(model: WorldModel, data: Batch) -> tuple[Tensor, Latent]:
    latents, terms = model.observe(data["obs"], data["act"])
    terms.error = (terms["reward"] - data["rew"]).pow(2)
    loss = terms["kl"].mean() + terms["recon"].mean() + terms.error.mean()
    #! misspelt-read: loss = terms["kl"].mean() + terms["recon"].mean() + terms.errors.mean()
    return loss, latents
    #! wrong-type: return loss, latents.deter


def imagine(model: WorldModel, actor: nn.Module, start: Latent, horizon: int) -> Batch:
    state = start
    frames = []
    for _ in range(horizon):
        action = torch.tanh(actor(torch.cat([state.deter, state.stoch], -1)))
        state = model.prior(state, action)
        frame = Batch(features=torch.cat([state.deter, state.stoch], -1))
        frame.reward = model.reward(frame.features).squeeze(-1)
        #! misspelt-read: frame.reward = model.reward(frame.feature).squeeze(-1)
        frames.append(frame)
    dream = Batch.stack(frames)
    discount = 0.9 ** torch.arange(horizon)[:, None]
    dream.returns = (discount * dream["reward"]).flip(0).cumsum(0).flip(0) / discount
    return dream


def main() -> None:
    torch.manual_seed(0)
    model, actor, critic = WorldModel(), nn.Linear(16, 1), nn.Linear(16, 1)
    model_optim = torch.optim.Adam(model.parameters(), lr=1e-2)
    actor_optim = torch.optim.Adam(actor.parameters(), lr=1e-2)
    critic_optim = torch.optim.Adam(critic.parameters(), lr=1e-2)
    obs, act = torch.randn(6, 5, 3), torch.rand(6, 5, 1) * 2 - 1
    data = Batch(obs=obs, act=act, rew=(obs[..., 0] * act[..., 0]))
    #! misspelt-keyword: data = Batch(obs=obs, act=act, reward=(obs[..., 0] * act[..., 0]))
    for step in range(4):
        loss, latents = model_loss(model, data)
        model_optim.zero_grad()
        loss.backward()
        model_optim.step()
        start = Latent(deter=latents.deter.detach(), mean=latents.mean.detach(), stoch=latents.stoch.detach())
        dream = imagine(model, actor, start, horizon=3)
        actor_loss = -dream["returns"].mean()
        actor_optim.zero_grad()
        actor_loss.backward()
        actor_optim.step()
        value_loss = (critic(dream["features"].detach()).squeeze(-1) - dream["returns"].detach()).pow(2).mean()
        critic_optim.zero_grad()
        value_loss.backward()
        critic_optim.step()
        print(f"{step} {loss.item():.4f} {actor_loss.item():.4f} {value_loss.item():.4f}")


if __name__ == "__main__":
    main()
