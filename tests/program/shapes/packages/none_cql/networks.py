import torch
from torch import nn

class QNet(nn.Module):
    def __init__(self, obs_dim, n_act):
        super().__init__()
        self.l1 = nn.Linear(obs_dim, 24)
        self.l2 = nn.Linear(24, n_act)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x)))
