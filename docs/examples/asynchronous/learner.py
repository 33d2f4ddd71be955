"""The loss of PPO with stale samples (arXiv:2110.00641), and what it reads: values, advantages of turns, weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model import Transformer, make_critic, make_policy
from records import Learnable, LossInputs, PackedLossInputs, Played
from typedbatch import checked, extend, validate
from typedbatch.posttraining import aggregate, micro_batches, to_layout, token_gae, token_logp, token_values

EPOCHS, CLIP, GAMMA, LAMBDA, LEARNING_RATE = 3, 0.2, 1.0, 0.95, 3e-3
MAX_IS_WEIGHT, MAX_TOKENS, VALUE_COEF = 2.0, 1024, 0.5


class Learner:
    """The policy, the critic, and the optimizer of both."""

    def __init__(self) -> None:
        self.policy, self.critic = make_policy(), make_critic()
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, LEARNING_RATE)

    def learn(self, played: Played, *, packed: bool = False) -> Learnable:
        """Update the weights by games that were played, and return what was learned from."""
        batch = prepare(self.policy, self.critic, played)
        for _ in range(EPOCHS):
            for part in micro_batches(batch, MAX_TOKENS):
                if packed:
                    inputs = validate(to_layout(part.batch, "packed"), PackedLossInputs)
                    loss = packed_loss(self.policy, self.critic, inputs, part.total_tokens)
                else:
                    loss = padded_loss(self.policy, self.critic, part.batch, part.total_tokens)
                torch.autograd.backward(loss)  # loss.backward() is not typed
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
            self.optimizer.zero_grad()
        return batch


@checked(level="values")
@torch.no_grad()
def prepare(policy: Transformer, critic: Transformer, played: Played) -> Learnable:
    """Add what the trainer's weights say of the tokens before the update, and the advantages of the turns."""
    counts, old_logp, values = played.loss_mask, token_logp(policy, played), token_values(critic, played)
    adv, returns = token_gae(played.turn_rewards, values, counts, gamma=GAMMA, lam=LAMBDA, turns=played.turns)
    advantages = (adv - adv[counts].mean()) / (adv[counts].std() + 1e-6) * counts
    return extend(
        played,
        Learnable,
        rewards=played.turn_rewards.sum(1),
        old_logp=old_logp,
        values=values,
        returns=returns,
        advantages=advantages,
        is_weights=(old_logp - played.rollout_logp).exp().clamp(max=MAX_IS_WEIGHT) * counts,
    )


def token_losses(logp: Tensor, values: Tensor, batch: LossInputs | PackedLossInputs) -> Tensor:
    """Return the clipped loss of each token, weighted as a sample of older weights, and that of its value."""
    ratio = (logp - batch.old_logp).exp()
    clipped = torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages)
    return VALUE_COEF * (values - batch.returns) ** 2 - batch.is_weights * clipped


def padded_loss(policy: Transformer, critic: Transformer, batch: LossInputs, total: int) -> Tensor:
    """Return the loss of padded games, as a part of ``total`` tokens."""
    losses = token_losses(token_logp(policy, batch), token_values(critic, batch), batch)
    return aggregate(losses, batch.loss_mask, total=total)


def packed_loss(policy: Transformer, critic: Transformer, batch: PackedLossInputs, total: int) -> Tensor:
    """Return the loss of games end to end, as a part of ``total`` tokens; only the layout of its inputs differs."""
    losses = token_losses(token_logp(policy, batch), token_values(critic, batch), batch)
    return aggregate(losses, batch.loss_mask, total=total)
