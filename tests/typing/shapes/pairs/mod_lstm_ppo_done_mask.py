"""Recurrent PPO policy: an LSTM whose state is reset at episode boundaries."""
from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

LSTMState = tuple[Tensor, Tensor]


class RecurrentPolicy(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 32):
        super().__init__()
        self.hidden = hidden
        self.encoder = nn.Linear(obs_dim, hidden)
        self.lstm = nn.LSTM(hidden, hidden)
        self.actor = nn.Linear(hidden, n_actions)
        self.critic = nn.Linear(hidden, 1)

    def initial_state(self, batch: int) -> LSTMState:
        zeros = torch.zeros(1, batch, self.hidden)
        return zeros, zeros.clone()

    def forward(
        self,
        obs: Float[Tensor, "T B O"],
        done: Bool[Tensor, "T B"],
        state: LSTMState,
    ) -> tuple[Float[Tensor, "T B A"], Float[Tensor, "T B"], LSTMState]:
        feats = torch.relu(self.encoder(obs))
        outs = []
        for x, d in zip(feats, done):
            keep = (1.0 - d.float()).view(1, -1, 1)
            # wrong: keep = (1.0 - d.float()).view(1, 1, -1)  # WRONG
            h, c = state
            out, state = self.lstm(x.unsqueeze(0), (keep * h, keep * c))
            outs.append(out)
        y = torch.cat(outs, dim=0)
        return self.actor(y), self.critic(y).squeeze(-1), state


def main() -> None:
    torch.manual_seed(0)
    T, B, O, A = 5, 4, 7, 3
    net = RecurrentPolicy(O, A)
    done = torch.rand(T, B) < 0.2
    logits, values, (h, _) = net(torch.randn(T, B, O), done, net.initial_state(B))
    # wrong: logits, values, (h, _) = net(torch.randn(T, B, O), done, net.initial_state(B))  # WRONG
    print(logits.shape, values.shape, h.shape)


if __name__ == "__main__":
    main()
