"""MAPPO after on-policy: parameters shared by agents, a critic of the shared state, masks of dead agents, Huber loss, two optimizers."""
import torch, torch.nn as nn, torch.nn.functional as F
from torch.distributions import Categorical
from typedbatch import Batch

N, T, A, LIMIT, GAMMA, LAM, CLIP = 8, 12, 3, 10, 0.97, 0.95, 0.2

class World:
    """Agents collect battery charge or spend it on the common goal; an agent without charge is out until the episode ends."""
    def __init__(self):
        self.charge, self.t = torch.rand(N, A), torch.zeros(N)
    def observe(self):
        time = self.t[:, None] / LIMIT
        share = torch.cat([self.charge, time], -1)
        ids = torch.eye(A).expand(N, A, A)
        obs = torch.cat([self.charge[..., None], time[:, None].expand(N, A, 1), ids], -1)
        return obs, share[:, None].expand(N, A, A + 1).clone(), (self.charge > 0).float()[..., None]
    def step(self, act):
        alive = self.charge > 0
        reward = ((act == 1) & alive).float().sum(-1) / A  # shared by the team
        self.charge = torch.where(alive, (self.charge + torch.where(act == 1, -0.4, 0.2)).clamp(0, 1), 0.0)
        self.t += 1
        done = (self.t >= LIMIT) | (self.charge <= 0).all(-1)  # time is in the observation, so its end is a true end
        self.charge[done], self.t[done] = torch.rand(int(done.sum()), A), 0
        return reward[:, None, None].expand(N, A, 1), done

def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor = nn.Sequential(nn.Linear(2 + A, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(A + 1, 32), nn.ReLU(), nn.Linear(32, 1))
    actor_optimizer, critic_optimizer = torch.optim.Adam(actor.parameters(), 1e-3, eps=1e-5), torch.optim.Adam(critic.parameters(), 1e-3, eps=1e-5)
    world, start = World(), [torch.ones(N, A, 1)]

    @torch.no_grad()
    def draw():
        obs, share, active = world.observe()
        columns = {"share_obs": [share], "obs": [obs], "active_masks": [active], "masks": [start[0]], "value_preds": [critic(share)]}
        columns |= {"actions": [], "action_log_probs": [], "rewards": []}
        for _ in range(T):
            dist = Categorical(logits=actor(obs))
            act = dist.sample()
            rewards, done = world.step(act)
            obs, share, active = world.observe()
            mask = (~done).float()[:, None, None].expand(N, A, 1)
            row = dict(share_obs=share, obs=obs, active_masks=active, masks=mask, value_preds=critic(share), actions=act[..., None],
                       action_log_probs=dist.log_prob(act)[..., None], rewards=rewards)
            for name, value in row.items():
                columns[name].append(value)
        start[0] = mask
        return (Batch({name: torch.stack(values, 1) for name, values in columns.items()}),)  # (N, T or T + 1, A, ...)

    def update(buf):
        gae, advantages = 0, torch.zeros_like(buf.rewards)
        for t in reversed(range(buf.rewards.shape[1])):
            delta = buf.rewards[:, t] + GAMMA * buf.value_preds[:, t + 1] * buf.masks[:, t + 1] - buf.value_preds[:, t]
            advantages[:, t] = gae = delta + GAMMA * LAM * buf.masks[:, t + 1] * gae
        returns, active = advantages + buf.value_preds[:, :-1], buf.active_masks[:, :-1]
        living = advantages[active.bool()]
        advantages = (advantages - living.mean()) / (living.std() + 1e-5)
        info = {}
        for _ in range(4):
            dist = Categorical(logits=actor(buf.obs[:, :-1]))
            imp_weights = torch.exp(dist.log_prob(buf.actions.squeeze(-1))[..., None] - buf.action_log_probs)
            surr = torch.min(imp_weights * advantages, imp_weights.clamp(1 - CLIP, 1 + CLIP) * advantages)
            policy_loss = -((surr + 0.01 * dist.entropy()[..., None]) * active).sum() / active.sum()
            actor_optimizer.zero_grad()
            policy_loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 10.0)
            actor_optimizer.step()
            values, old = critic(buf.share_obs[:, :-1]), buf.value_preds[:, :-1]
            errors = [F.huber_loss(v, returns, reduction="none", delta=10.0) for v in (values, old + (values - old).clamp(-CLIP, CLIP))]
            value_loss = torch.max(*errors).mean()
            critic_optimizer.zero_grad()
            value_loss.backward()
            nn.utils.clip_grad_norm_(critic.parameters(), 10.0)
            critic_optimizer.step()
            info = {"policy_loss": policy_loss.item(), "value_loss": value_loss.item()}
        return info

    return update, draw
