"""VDN with shared parameters: nested fields by agent name, one team reward, action masks, one optimizer and a hard target update."""
import copy
import numpy as np
import torch
from torch import nn
from typedbatch import Batch

AGENTS, SIZE, GAMMA = ("alice", "bob", "carol"), 7, 0.95

class SharedQ(nn.Module):
    """Network that all agents share; its input includes the index of the agent."""
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 + len(AGENTS), 48), nn.ReLU(), nn.Linear(48, 3))
        self.register_buffer("ids", torch.eye(len(AGENTS)))
    def forward(self, obs, agent):
        return self.net(torch.cat([obs, self.ids[AGENTS.index(agent)].expand(len(obs), -1)], -1))

def observe(pos):  # own place, and the mean place of the others; moves off the line are not allowed
    obs = {a: np.array([pos[i], np.delete(pos, i).mean()], np.float32) / SIZE for i, a in enumerate(AGENTS)}
    mask = {a: np.array([pos[i] > 0, True, pos[i] < SIZE - 1]) for i, a in enumerate(AGENTS)}
    return {"observation": obs, "action_mask": mask}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    q_net = SharedQ()
    target = copy.deepcopy(q_net)
    optim = torch.optim.Adam(q_net.parameters(), lr=2e-3)
    memory, pos, updates = [], rng.integers(SIZE, size=len(AGENTS)), 0

    def act(state):  # epsilon-greedy within the masks
        batch, choice = Batch.stack([Batch(state)]).to_torch(), {}
        for agent in AGENTS:
            mask = state["action_mask"][agent]
            with torch.no_grad():
                greedy = q_net(batch.observation[agent], agent).masked_fill(~batch.action_mask[agent], -torch.inf).argmax().item()
            choice[agent] = rng.choice(np.flatnonzero(mask)) if rng.random() < 0.3 else greedy
        return choice

    def draw():
        nonlocal pos
        for _ in range(200 if not memory else 8):  # the team gets 1 when all have met, which ends the episode
            state = observe(pos)
            action = act(state)
            pos = pos + np.array([action[a] - 1 for a in AGENTS])
            met = bool((pos == pos[0]).all())
            memory.append(Batch(**state, action=action, team_reward=np.float32(met - 0.05), next=observe(pos), terminal=met))
            if met or rng.random() < 0.05:  # or the episode is truncated at random
                pos = rng.integers(SIZE, size=len(AGENTS))
        return (Batch.stack([memory[i] for i in rng.integers(len(memory), size=64)]).to_torch(),)

    def update(batch):
        nonlocal updates
        chosen, ahead = [], []
        for agent in AGENTS:
            chosen.append(q_net(batch.observation[agent], agent).gather(1, batch.action[agent][:, None]).squeeze(1))
            with torch.no_grad():
                legal = batch.next.action_mask[agent]
                best = q_net(batch.next.observation[agent], agent).masked_fill(~legal, -torch.inf).argmax(1, keepdim=True)
                ahead.append(target(batch.next.observation[agent], agent).gather(1, best).squeeze(1))
        y = batch.team_reward + GAMMA * (~batch.terminal) * sum(ahead)
        loss = nn.functional.smooth_l1_loss(sum(chosen), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        updates += 1
        if updates % 2 == 0:
            target.load_state_dict(q_net.state_dict())
        return loss.item()

    return update, draw
