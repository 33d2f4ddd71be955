"""TD3 as an agent of skrl: models in a dict, scaled states, target smoothing, delayed policy, zero_grad at the end of a step."""
import copy
import itertools

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from typedbatch import Batch

def mlp(inputs, outputs, *tail):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs), *tail)

class TD3Agent:
    cfg = dict(discount_factor=0.99, polyak=0.02, policy_delay=2, smooth=0.2, smooth_clip=0.5, gradient_steps=2, mini_batch=64, grad_norm_clip=1.0)

    def __init__(self, models):
        self.models, self._critic_update_counter = models, 0
        for name in ("policy", "critic_1", "critic_2"):
            models[f"target_{name}"] = copy.deepcopy(models[name]).requires_grad_(False)
        self.critics = list(itertools.chain(models["critic_1"].parameters(), models["critic_2"].parameters()))
        self.policy_optimizer = torch.optim.Adam(models["policy"].parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critics, lr=1e-3)
        self._scale = torch.tensor([1.0, 1.0, 1 / 8])

    def _state_preprocessor(self, states):
        return states * self._scale

    def act(self, role, states):
        return self.models[role](states)

    def q(self, role, states, actions):
        return self.models[role](torch.cat([states, actions], dim=1))

    def _update(self, memory):
        tracked = {}
        for batch in memory.split(self.cfg["mini_batch"], shuffle=False):
            states, next_states = map(self._state_preprocessor, (batch.states, batch.next_states))
            with torch.no_grad():
                next_actions = self.act("target_policy", next_states)
                noises = (torch.randn_like(next_actions) * self.cfg["smooth"]).clamp(-self.cfg["smooth_clip"], self.cfg["smooth_clip"])
                next_actions = (next_actions + noises).clamp(-1, 1)
                target_q = torch.min(self.q("target_critic_1", next_states, next_actions), self.q("target_critic_2", next_states, next_actions))
                target_values = batch.rewards + self.cfg["discount_factor"] * batch.terminated.logical_not() * target_q
            critic_loss = sum(F.mse_loss(self.q(role, states, batch.actions), target_values) for role in ("critic_1", "critic_2"))
            critic_loss.backward()
            nn.utils.clip_grad_norm_(self.critics, self.cfg["grad_norm_clip"])
            self.critic_optimizer.step()
            self.critic_optimizer.zero_grad()
            tracked["Loss / Critic loss"] = critic_loss.item()

            self._critic_update_counter += 1
            if self._critic_update_counter % self.cfg["policy_delay"] == 0:
                policy_loss = -self.q("critic_1", states, self.act("policy", states)).mean()
                policy_loss.backward()
                nn.utils.clip_grad_norm_(self.models["policy"].parameters(), self.cfg["grad_norm_clip"])
                self.policy_optimizer.step()
                self.policy_optimizer.zero_grad()
                self.critic_optimizer.zero_grad()  # what the policy loss left in the critics
                tracked["Loss / Policy loss"] = policy_loss.item()
                with torch.no_grad():
                    for name in ("policy", "critic_1", "critic_2"):
                        for slow, fast in zip(self.models[f"target_{name}"].parameters(), self.models[name].parameters()):
                            slow.lerp_(fast, self.cfg["polyak"])
        return tracked

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng, env = np.random.default_rng(seed), gym.make("Pendulum-v1", max_episode_steps=100)
    agent = TD3Agent({"policy": mlp(3, 1, nn.Tanh()), "critic_1": mlp(4, 1), "critic_2": mlp(4, 1)})
    rows, state = [], env.reset(seed=seed)[0]

    def interact(steps):
        nonlocal state
        for _ in range(steps):
            with torch.no_grad():
                mean = agent.act("policy", agent._state_preprocessor(torch.as_tensor(state)[None]))[0].numpy()
            action = np.clip(mean + 0.4 * rng.standard_normal(1), -1, 1).astype(np.float32)
            after, reward, terminated, truncated, _ = env.step(2 * action)
            rows.append(Batch(states=torch.as_tensor(state), actions=torch.as_tensor(action), rewards=torch.tensor([float(reward) / 10]),
                              next_states=torch.as_tensor(after), terminated=torch.tensor([terminated]), truncated=torch.tensor([truncated])))
            state = env.reset()[0] if terminated or truncated else after

    def draw():
        interact(300 if not rows else 16)
        return (Batch.stack([rows[i] for i in rng.integers(len(rows), size=agent.cfg["gradient_steps"] * agent.cfg["mini_batch"])]),)

    return agent._update, draw
