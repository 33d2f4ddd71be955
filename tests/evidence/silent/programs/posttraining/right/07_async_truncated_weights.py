"""Asynchronous RLOO: a queue of rollouts of older weights, too old ones are dropped, the rest are weighted per token."""

# TIS and decoupled PPO (AReaL, arXiv:2505.24298): the ratio is against the trainer's weights of now, the weight to the sampler
import copy
from collections import deque

import torch

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import cat, extend
from typedbatch.posttraining import Ready, Rollouts
from typedbatch.rows import groups, repeat

GROUP, AHEAD, SYNC, OLDEST, CAP, CLIP = 4, 3, 2, 6, 2.0, 0.2


class RolloutWorker:
    """Samples AHEAD batches before they are needed, with weights that it gets every SYNC steps."""

    def __init__(self, model):
        self.model, self.version, self.queue = copy.deepcopy(model), 0, deque()

    def receive(self, model, version):
        self.model.load_state_dict(model.state_dict())
        self.version = version

    def fill(self):
        while len(self.queue) < AHEAD:
            rollouts = generate(self.model, repeat(draw_prompts(12), GROUP))
            self.queue.append(score(extend(rollouts, Rollouts, policy_step=torch.full((len(rollouts),), self.version))))

    def take(self):
        self.fill()
        return self.queue.popleft()


class Learner:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model, self.step = Recurrent(VOCAB), 0
        self.worker = RolloutWorker(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=4e-3)

    def draw(self):
        scored = cat([self.worker.take(), self.worker.take()])  # may be of two versions
        return (scored[self.step - scored.policy_step <= OLDEST],)

    @torch.no_grad()
    def prepare(self, scored):
        advantages = scored.rewards - groups(scored, "uid", size=GROUP).leave_one_out(scored.rewards)
        old_logp = token_logp(self.model, scored)
        is_weights = (old_logp - scored.rollout_logp).exp().clamp(max=CAP) * scored.loss_mask
        return extend(
            scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask, is_weights=is_weights
        )

    def update(self, scored):
        for part in self.prepare(scored).split(32, rng=torch.default_generator):
            ratio = (token_logp(self.model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(part.is_weights * gain).sum() / part.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.step += 1
        if self.step % SYNC == 0:
            self.worker.receive(self.model, self.step)
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    learner = Learner(seed)
    return learner.update, learner.draw
