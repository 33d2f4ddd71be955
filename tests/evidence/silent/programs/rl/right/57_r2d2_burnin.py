"""R2D2 on CartPole without velocities: stored GRU states, burn-in, padded sequences, rescaled double Q-values, priorities."""
import copy
import gymnasium as gym, numpy as np, torch
from torch import nn
from typedbatch import Batch

BURN, LEARN, STRIDE, GAMMA, ETA, ALPHA, BETA = 4, 8, 6, 0.98, 0.9, 0.9, 0.6
L = BURN + LEARN

def h(x):
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + 1e-3 * x

def h_inv(x):
    return x.sign() * ((((1 + 4e-3 * (x.abs() + 1 + 1e-3)).sqrt() - 1) / 2e-3) ** 2 - 1)

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.q = nn.GRU(2, 32, batch_first=True), nn.Linear(32, 2)
    def forward(self, obs, state):
        out, state = self.gru(obs * torch.tensor([1.0, 10.0]), state[None])  # angles are small
        return self.q(out), state[0]

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng, env, online = np.random.default_rng(seed), gym.make("CartPole-v1", max_episode_steps=60), Recurrent()
    slow, optim, pool, priority = copy.deepcopy(online), torch.optim.Adam(online.parameters(), 1e-3, eps=1e-3), [], []

    @torch.no_grad()
    def play(first=None):
        obs, state, steps, done = env.reset(seed=first)[0], torch.zeros(1, 32), [], False
        while not done:
            now = torch.as_tensor(obs[[0, 2]])
            q, after = online(now[None, None], state)
            action = int(q.argmax()) if rng.random() > 0.2 else int(rng.integers(2))
            obs, reward, terminated, truncated, _ = env.step(action)
            steps.append((now, state[0], action, float(reward), not terminated))
            state, done = after, terminated or truncated
        frames = torch.stack([s[0] for s in steps] + [torch.as_tensor(obs[[0, 2]])])
        for i in range(0, len(steps) - BURN, STRIDE):
            part = steps[i : i + L]
            pad = lambda values, dtype=torch.float32: nn.functional.pad(torch.tensor(values, dtype=dtype), (0, L - len(part)))
            seen = frames[i : i + len(part) + 1]
            pool.append(Batch(
                obs=nn.functional.pad(seen, (0, 0, 0, L + 1 - len(seen))), init_state=part[0][1], action=pad([s[2] for s in part], torch.long),
                reward=pad([s[3] for s in part]), bootstrap=pad([s[4] for s in part]), mask=pad([1.0] * len(part))))
            priority.append(1.0)

    def draw(n=16):
        play(seed if not pool else None)
        while len(pool) < 2 * n:
            play()
        p = np.array(priority) ** ALPHA
        idx = rng.choice(len(pool), n, replace=False, p=p / p.sum())
        weight = (len(pool) * p[idx] / p.sum()) ** -BETA
        return (Batch(Batch.stack([pool[i] for i in idx]), index=idx, weight=torch.as_tensor(weight / weight.max(), dtype=torch.float32)),)

    def update(batch):
        with torch.no_grad():
            states = [net(batch.obs[:, :BURN], batch.init_state)[1] for net in (online, slow)]
            target_q, _ = slow(batch.obs[:, BURN:], states[1])
        q_all, _ = online(batch.obs[:, BURN:], states[0])
        best = q_all[:, 1:].argmax(-1, keepdim=True)
        q = q_all[:, :-1].gather(-1, batch.action[:, BURN:, None])[..., 0]
        y = h(batch.reward[:, BURN:] + GAMMA * batch.bootstrap[:, BURN:] * h_inv(target_q[:, 1:].gather(-1, best)[..., 0]))
        mask = batch.mask[:, BURN:]
        td = (y - q) * mask
        loss = (batch.weight * (0.5 * td**2).sum(1) / mask.sum(1)).mean()
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 40)
        optim.step()
        error = td.detach().abs()
        for i, new in zip(batch.index, ETA * error.amax(1) + (1 - ETA) * error.sum(1) / mask.sum(1)):
            priority[i] = new.item() + 1e-4
        with torch.no_grad():
            for a, b in zip(slow.parameters(), online.parameters()):
                a.lerp_(b, 0.05)
        return {"loss": loss.item(), "td": error.mean().item()}

    return update, draw
