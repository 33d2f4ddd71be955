"""Option-critic with on-policy fragments: option values, terminations with a deliberation cost, intra-option policies, one loss."""
import copy
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical
from typedbatch import Batch

OPTIONS, GAMMA, EPS, COST, ENTROPY = 3, 0.98, 0.1, 0.01, 0.01

class OptionCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 64), nn.ReLU())
        self.q, self.beta, self.intra = nn.Linear(64, OPTIONS), nn.Linear(64, OPTIONS), nn.Linear(64, OPTIONS * 2)

    def forward(self, state):
        z = self.features(state)
        return self.q(z), self.beta(z).sigmoid(), self.intra(z).unflatten(-1, (OPTIONS, 2))

def of(values, option):
    return values[torch.arange(len(option)), option]

def value_over_options(q):  # of the epsilon-greedy policy over options
    return (1 - EPS) * q.max(-1).values + EPS * q.mean(-1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    net = OptionCritic()
    prime = copy.deepcopy(net)
    optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    env = gym.make("CartPole-v1", max_episode_steps=100)
    now = {"state": torch.as_tensor(env.reset(seed=seed)[0]), "option": None, "updates": 0}

    @torch.no_grad()
    def draw(n=48):
        rows = []
        for _ in range(n):
            q, beta, intra = (x[0] for x in net(now["state"][None]))
            if now["option"] is None or Bernoulli(beta[now["option"]]).sample():
                now["option"] = torch.randint(OPTIONS, ()) if torch.rand(()) < EPS else q.argmax()
            action = Categorical(logits=intra[now["option"]]).sample()
            obs, reward, terminated, truncated, _ = env.step(int(action))
            rows.append(Batch(state=now["state"], option=now["option"], action=action, reward=torch.tensor(float(reward)),
                              next_state=torch.as_tensor(obs), done=torch.tensor(terminated)))
            now["state"] = torch.as_tensor(obs)
            if terminated or truncated:
                now["state"], now["option"] = torch.as_tensor(env.reset()[0]), None
        return (Batch.stack(rows),)

    def update(b):
        q, _, intra = net(b.state)
        q_next, beta_next, _ = net(b.next_state)
        alive = (~b.done).float()
        with torch.no_grad():
            slow = prime(b.next_state)[0]
            stop = of(beta_next, b.option)
            target = b.reward + GAMMA * alive * ((1 - stop) * of(slow, b.option) + stop * value_over_options(slow))
            stay = of(q_next, b.option) - value_over_options(q_next) + COST
            advantage = target - of(q, b.option)
        policy = Categorical(logits=of(intra, b.option))
        losses = [
            0.5 * (of(q, b.option) - target).pow(2).mean(),
            -(policy.log_prob(b.action) * advantage + ENTROPY * policy.entropy()).mean(),
            (of(beta_next, b.option) * stay * alive).mean(),
        ]
        optim.zero_grad()
        sum(losses).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optim.step()
        now["updates"] += 1
        if now["updates"] % 2 == 0:
            prime.load_state_dict(net.state_dict())
        return [loss.item() for loss in losses]

    return update, draw
