"""ACER on replayed fragments: Retrace targets, truncated weights with bias correction, a trust region around the average network."""
import copy
import gymnasium as gym, torch
from torch import nn
from torch.nn import functional as F
from typedbatch import Batch

T, ACTIONS, GAMMA, C, DELTA, ENTROPY = 12, 2, 0.98, 2.0, 1.0, 1e-3

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.logits, self.q = nn.Sequential(nn.Linear(4, 64), nn.Tanh()), nn.Linear(64, ACTIONS), nn.Linear(64, ACTIONS)

    def forward(self, x):
        z = self.body(x)
        return self.logits(z), self.q(z)

class Acer:
    def __init__(self):
        self._nets = {"model": Model()}
        self._nets["avg_net"] = copy.deepcopy(self._nets["model"])
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)

    model, avg_net = (property(lambda self, name=name: self._nets[name]) for name in ("model", "avg_net"))

    @torch.no_grad()
    def retrace(self, b, pi, q):
        """The target of each row, given the policy and the values of the model: (B, T)."""
        logits_next, q_next = self.model(b.next_obs)
        v_next = (logits_next.softmax(-1) * q_next).sum(-1)
        v, q_a = (pi * q).sum(-1), q.gather(-1, b.actions[..., None])[..., 0]
        rho = pi.gather(-1, b.actions[..., None])[..., 0] / b.mus.gather(-1, b.actions[..., None])[..., 0]
        targets, after = torch.zeros_like(q_a), v_next[:, -1]
        for t in reversed(range(T)):
            if t < T - 1:  # an episode that was cut goes on in its own last observation, not in the next row
                after = torch.where(b.cuts[:, t], v_next[:, t], rho[:, t + 1].clamp(max=1) * (targets[:, t + 1] - q_a[:, t + 1]) + v[:, t + 1])
            targets[:, t] = b.rewards[:, t] + GAMMA * (~b.terminals[:, t]) * after
        return targets, v, rho

    def update(self, b):
        logits, q = self.model(b.obs)
        pi, q_fixed = logits.softmax(-1), q.detach()
        q_ret, v, rho = self.retrace(b, pi.detach(), q_fixed)
        log_pi = logits.log_softmax(-1)
        gain = rho.clamp(max=C) * log_pi.gather(-1, b.actions[..., None])[..., 0] * (q_ret - v)
        rho_all = pi.detach() / b.mus
        correction = ((1 - C / rho_all).clamp(min=0) * pi.detach() * log_pi * (q_fixed - v[..., None])).sum(-1)
        entropy = -(pi * log_pi).sum(-1)
        objective = gain + correction + ENTROPY * entropy
        (g,) = torch.autograd.grad(objective.sum(), logits, retain_graph=True)
        with torch.no_grad():  # the KL of avg_net to pi, in the logits
            k = pi - self.avg_net(b.obs)[0].softmax(-1)
            step = g - ((k * g).sum(-1, keepdim=True) - DELTA).clamp(min=0) / (k.square().sum(-1, keepdim=True) + 1e-10) * k
        q_loss = 0.5 * F.mse_loss(q.gather(-1, b.actions[..., None])[..., 0], q_ret)
        self.optimizer.zero_grad()
        logits.backward(-step / step[..., 0].numel(), retain_graph=True)
        q_loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
        self.optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.avg_net.parameters(), self.model.parameters()):
                slow.mul_(0.99).add_(fast, alpha=0.01)
        return {"q_loss": q_loss.item(), "gain": gain.mean().item(), "entropy": entropy.mean().item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    agent, env, fragments = Acer(), gym.make("CartPole-v1", max_episode_steps=50), []
    now = [torch.as_tensor(env.reset(seed=seed)[0])]

    @torch.no_grad()
    def fragment():
        rows = []
        for _ in range(T):
            mu = agent.model(now[0])[0].softmax(-1)
            action = torch.multinomial(mu, 1)[0]
            obs, reward, terminated, truncated, _ = env.step(int(action))
            rows.append(Batch(obs=now[0], actions=action, mus=mu, rewards=torch.tensor(float(reward)), next_obs=torch.as_tensor(obs),
                              terminals=torch.tensor(terminated), cuts=torch.tensor(terminated or truncated)))
            now[0] = torch.as_tensor(env.reset()[0] if terminated or truncated else obs)
        return Batch.stack(rows)

    def draw():
        fragments.extend(fragment() for _ in range(24 if not fragments else 4))
        return (Batch.stack([fragments[i] for i in torch.randint(len(fragments), (16,))]),)

    return agent.update, draw
