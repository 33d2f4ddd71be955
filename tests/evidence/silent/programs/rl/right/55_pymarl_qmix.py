"""QMIX after PyMARL: padded episodes (B, T + 1), recurrent agents, hypernetwork mixer, masks from `filled` and `terminated`."""
import copy
import torch as th, torch.nn as nn, torch.nn.functional as F
from typedbatch import Batch

B, T, A, ACTIONS, OBS, STATE, EMBED, HID, GAMMA = 16, 6, 2, 3, 4, 5, 8, 24, 0.97

class RNNAgent(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.rnn, self.fc2 = nn.Linear(OBS + A + ACTIONS, HID), nn.GRUCell(HID, HID), nn.Linear(HID, ACTIONS)
    def unroll(self, batch):  # inputs are the observation, the last action, and who the agent is
        B = len(batch.obs)
        last = th.cat([th.zeros(B, 1, A, ACTIONS), F.one_hot(batch.actions.squeeze(-1), ACTIONS).float()], 1)
        inputs = th.cat([batch.obs, last, th.eye(A).expand(B, T + 1, A, A)], -1)
        h, outs = th.zeros(B * A, HID), []
        for t in range(T + 1):
            h = self.rnn(F.relu(self.fc1(inputs[:, t].reshape(B * A, -1))), h)
            outs.append(self.fc2(h).view(B, A, ACTIONS))
        return th.stack(outs, dim=1)

class QMixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.hyper_w_1, self.hyper_w_final = nn.Linear(STATE, EMBED * A), nn.Linear(STATE, EMBED)
        self.hyper_b_1, self.V = nn.Linear(STATE, EMBED), nn.Sequential(nn.Linear(STATE, EMBED), nn.ReLU(), nn.Linear(EMBED, 1))
    def forward(self, agent_qs, states):
        w1 = self.hyper_w_1(states).abs().unflatten(-1, (A, EMBED))
        hidden = F.elu((agent_qs.unsqueeze(-2) @ w1).squeeze(-2) + self.hyper_b_1(states))
        return (hidden * self.hyper_w_final(states).abs()).sum(-1, keepdim=True) + self.V(states)

class QLearner:
    def __init__(self):
        self.agent, self.mixer, self.last_target_update_step, self.steps = RNNAgent(), QMixer(), 0, 0
        self.target_agent, self.target_mixer = copy.deepcopy(self.agent), copy.deepcopy(self.mixer)
        self.params = [*self.agent.parameters(), *self.mixer.parameters()]
        self.optimiser = th.optim.RMSprop(self.params, lr=5e-4, alpha=0.99, eps=1e-5)

    def train(self, batch):
        rewards, actions, terminated = batch.reward[:, :-1], batch.actions, batch.terminated[:, :-1].float()
        mask = batch.filled[:, :-1].float()
        mask[:, 1:] = mask[:, 1:] * (1 - terminated[:, :-1])
        mac_out = self.agent.unroll(batch)
        chosen = mac_out[:, :-1].gather(3, actions).squeeze(3)
        with th.no_grad():
            legal = batch.avail_actions.bool()
            cur_max = mac_out.detach().masked_fill(~legal, -9999999).max(dim=3, keepdim=True)[1]
            target_max = self.target_agent.unroll(batch)[:, 1:].gather(3, cur_max[:, 1:]).squeeze(3)
            targets = rewards + GAMMA * (1 - terminated) * self.target_mixer(target_max, batch.state[:, 1:])
        td_error = (self.mixer(chosen, batch.state[:, :-1]) - targets) * mask
        loss = (td_error**2).sum() / mask.sum()
        self.optimiser.zero_grad()
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(self.params, 10)
        self.optimiser.step()
        self.steps += 1
        if self.steps - self.last_target_update_step >= 2:
            self.target_agent.load_state_dict(self.agent.state_dict())
            self.target_mixer.load_state_dict(self.mixer.state_dict())
            self.last_target_update_step = self.steps
        return {"loss": loss.item(), "grad_norm": grad_norm.item()}

def setup(seed: int = 0):
    th.manual_seed(seed)
    gen = th.Generator().manual_seed(seed)

    def draw():  # both agents should choose the action that the first entries of their state show; some episodes end early
        length = th.randint(2, T + 1, (B, 1, 1), generator=gen)  # number of steps; ends in t = length - 1
        steps = th.arange(T + 1)[None, :, None]
        filled = steps <= length  # the last observation is there too
        state = th.randn(B, T + 1, STATE, generator=gen) * filled
        obs = th.stack([state[..., :OBS], state[..., 1:]], 2)
        avail = (th.rand(B, T + 1, A, ACTIONS, generator=gen) < 0.7) & filled[..., None]
        avail[..., 0] = True
        actions = th.multinomial(avail.float().view(-1, ACTIONS), 1, generator=gen).view(B, T + 1, A, 1) * filled[..., None]
        best = obs[..., :ACTIONS].masked_fill(~avail, -9.0).argmax(-1, keepdim=True)
        reward = (actions == best).float().mean(2) * (steps < length)
        terminated = (steps == length - 1) & (length < T)  # those of T steps were cut by the limit
        return (Batch(state=state, obs=obs, avail_actions=avail, actions=actions[:, :-1], reward=reward, terminated=terminated, filled=filled),)

    return QLearner().train, draw
