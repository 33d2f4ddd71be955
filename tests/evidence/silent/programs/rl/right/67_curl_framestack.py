"""DQN with CURL on images: frames stacked by the replay buffer, random shifts, a momentum encoder for keys and for the targets."""
import copy
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer

SIZE, STACK, GAMMA, MOMENTUM = 8, 3, 0.95, 0.95

class Catch:
    """A ball falls, and the paddle at the bottom should be below it: 1 or -1 at the end."""
    def __init__(self, rng):
        self.rng = rng
    def reset(self):
        self.ball, self.paddle = [0, int(self.rng.integers(SIZE))], SIZE // 2
        return self.frame()
    def frame(self):
        image = np.zeros((SIZE, SIZE), np.uint8)
        image[self.ball[0], self.ball[1]] = image[SIZE - 1, self.paddle] = 255
        return image
    def step(self, action):
        self.paddle = min(max(self.paddle + action - 1, 0), SIZE - 1)
        self.ball[0] += 1
        over = self.ball[0] == SIZE - 1
        return self.frame(), float(over) * (1.0 if self.paddle == self.ball[1] else -1.0), over

class Agent:
    def __init__(self):
        encoder = nn.Sequential(nn.Conv2d(STACK, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 32), nn.LayerNorm(32))
        self.online = nn.ModuleDict({"encoder": encoder, "q": nn.Linear(32, 3)})
        self.momentum_encoder, self.q_old = (copy.deepcopy(self.online[name]).requires_grad_(False) for name in ("encoder", "q"))
        self.W = nn.Parameter(torch.eye(32) * 0.1)
        self.q_optim, self.curl_optim = torch.optim.Adam(self.online.parameters(), 1e-3), torch.optim.Adam([*encoder.parameters(), self.W], 1e-3)

    @staticmethod
    def augment(stack):  # one shift of up to one pixel for all frames of a row
        x = F.pad(torch.as_tensor(stack, dtype=torch.float32) / 255, (1, 1, 1, 1))
        dy, dx = torch.randint(3, (2, len(x), 1, 1, 1))
        grid = torch.arange(SIZE)
        rows, cols = (grid[:, None] + dy).expand(-1, 1, SIZE, SIZE), (grid + dx).expand(-1, 1, SIZE, SIZE)
        return x[torch.arange(len(x))[:, None, None, None], torch.arange(STACK)[:, None, None], rows, cols]

    def update(self, batch):
        rew, live = torch.as_tensor(batch.rew, dtype=torch.float32), 1 - torch.as_tensor(batch.terminated, dtype=torch.float32)
        with torch.no_grad():
            view = self.augment(batch.obs_next)
            best = self.online["q"](self.online["encoder"](view)).argmax(-1, keepdim=True)
            target = rew + GAMMA * live * self.q_old(self.momentum_encoder(view)).gather(-1, best).squeeze(-1)
        q = self.online["q"](self.online["encoder"](self.augment(batch.obs)))
        q_loss = F.smooth_l1_loss(q.gather(-1, torch.as_tensor(batch.act)[:, None]).squeeze(-1), target)
        self.q_optim.zero_grad()
        q_loss.backward()
        self.q_optim.step()

        anchor = self.online["encoder"](self.augment(batch.obs))
        with torch.no_grad():
            keys = self.momentum_encoder(self.augment(batch.obs))
        logits = anchor @ self.W @ keys.T
        curl_loss = F.cross_entropy(logits - logits.amax(1, keepdim=True).detach(), torch.arange(len(logits)))
        self.curl_optim.zero_grad()
        curl_loss.backward()
        self.curl_optim.step()
        with torch.no_grad():
            for fast, slow in ((self.online["encoder"], self.momentum_encoder), (self.online["q"], self.q_old)):
                for f, s in zip(fast.parameters(), slow.parameters()):
                    s.copy_(MOMENTUM * s + (1 - MOMENTUM) * f)
        return {"q": q_loss.item(), "curl": curl_loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env, agent, buffer = Catch(rng), Agent(), ReplayBuffer(2000, stack_num=STACK, ignore_obs_next=True, random_seed=seed)

    def episode():  # of random actions, which explore enough here; episodes are stored whole and all terminate
        obs, over = env.reset(), False
        while not over:
            act = int(rng.integers(3))
            obs_next, rew, over = env.step(act)
            buffer.add(Batch(obs=obs, act=act, rew=rew, terminated=over, truncated=False, obs_next=obs_next, info=Batch()))
            obs = obs_next

    def draw():
        for _ in range(40 if len(buffer) == 0 else 2):
            episode()
        return (buffer.sample(48)[0],)

    return agent.update, draw
