"""Asynchronous GRPO: the ratio is between the trainer's weights and the older ones that drew the samples."""
# wrong: """Samples are of older weights, but old log-probs are recomputed with the present ones: the ratio is always 1."""
from collections import deque

import torch
from torch import nn, optim

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

CONFIG = {
    "vocabulary": 13, "width": 28, "prompts_per_batch": 5, "samples_per_prompt": 8, "max_tokens": 7,
    "max_staleness": 6, "learning_rate": 1.5e-2, "clip_low": 0.2, "clip_high": 0.28, "queue": 2,
}
BOS, EOS = 0, 1  # BOS pads as well


def build():
    width, vocabulary = CONFIG["width"], CONFIG["vocabulary"]
    return nn.ModuleDict({
        "embed": nn.Embedding(vocabulary, width),
        "rnn": nn.GRUCell(width, width),
        "head": nn.Linear(width, vocabulary),
    })


def run(model, ids, mask, hidden=None):
    hidden, states = torch.zeros(len(ids), CONFIG["width"]) if hidden is None else hidden, []
    for x, there in zip(model["embed"](ids).unbind(1), mask.unbind(1)):
        hidden = torch.where(there[:, None], model["rnn"](x, hidden), hidden)
        states.append(hidden)
    return model["head"](torch.stack(states, 1)), hidden


def compute_logprobs(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    logits, _ = run(model, ids[:, :-1], mask[:, :-1])
    logp = logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return logp[:, batch.prompt_ids.shape[1] - 1 :].where(batch.response_mask, 0.0)


class Generator:
    """Stands for the inference engine, with weights of its own that the trainer pushes now and then."""

    def __init__(self, weights):
        self.model, self.version = build(), 0
        self.model.load_state_dict(weights)

    def update_weights(self, weights, version):
        self.model.load_state_dict(weights)
        self.version = version

    @torch.no_grad()
    def generate(self, prompts):
        n = len(prompts)
        logits, hidden = run(self.model, prompts.prompt_ids, prompts.prompt_mask)
        ids, logps, masks, going = [], [], [], torch.ones(n, dtype=torch.bool)
        for _ in range(CONFIG["max_tokens"]):
            logp = logits[:, -1].log_softmax(-1)
            token = torch.multinomial(logp.exp(), 1).squeeze(1).where(going, BOS)
            ids.append(token)
            masks.append(going)
            logps.append(logp[torch.arange(n), token] * going)
            logits, hidden = run(self.model, token[:, None], going[:, None], hidden)
            going = going & (token != EOS)
        mask = torch.stack(masks, 1)
        return extend(
            prompts, Rollouts, response_ids=torch.stack(ids, 1), response_mask=mask, loss_mask=mask,
            rollout_logp=torch.stack(logps, 1), policy_step=torch.full((n,), self.version), truncated=going,
        )


def reward(rollouts):
    """A reward for different tokens that are near those of the prompt."""
    near = (rollouts.response_ids - rollouts.prompt_ids[:, -1:]).abs() <= 2
    good = near & rollouts.response_mask & (rollouts.response_ids > EOS)
    distinct = (nn.functional.one_hot(rollouts.response_ids, CONFIG["vocabulary"]) * good[..., None]).amax(1).sum(1)
    return extend(rollouts, Scored, rewards=distinct.float() - 0.1 * rollouts.response_mask.sum(1))


class Trainer:
    def __init__(self):
        self.model, self.steps = build(), 0
        self.optimizer = optim.Adam(self.model.parameters(), CONFIG["learning_rate"])
        self.generator = Generator(self.model.state_dict())
        self.queue = deque()

    def draw(self):
        while len(self.queue) < CONFIG["queue"]:
            ids = torch.randint(2, CONFIG["vocabulary"], (CONFIG["prompts_per_batch"], 2))
            uid = objects(f"{self.steps}-{i}" for i in range(len(ids)))
            prompts = Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=uid)
            self.queue.append(reward(self.generator.generate(repeat(prompts, CONFIG["samples_per_prompt"]))))
        return (self.queue.popleft(),)

    def update(self, scored):
        by = groups(scored, "uid")
        advantages = (scored.rewards - by.mean(scored.rewards)) / (by.std(scored.rewards) + 1e-4)
        logp = compute_logprobs(self.model, scored)
        ready = extend(
            scored, Ready, advantages=advantages[:, None] * scored.loss_mask,
            old_logp=scored.rollout_logp,
            # wrong: old_logp=logp.detach(),
        )
        ratio = (logp - ready.old_logp).exp()
        clipped = ratio.clamp(1 - CONFIG["clip_low"], 1 + CONFIG["clip_high"])
        loss = -torch.min(ratio * ready.advantages, clipped * ready.advantages)[ready.loss_mask].mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps % CONFIG["max_staleness"] == 0:
            self.generator.update_weights(self.model.state_dict(), self.steps)
        stale = (self.steps - 1 - scored.policy_step).float().mean()
        return {"loss": loss.item(), "ratio": ratio[ready.loss_mask].mean().item(), "staleness": stale.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer()
    for _ in range(11):  # until the pipeline runs as it does later on
        trainer.update(*trainer.draw())
    return trainer.update, trainer.draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer()
    ids = torch.randint(2, CONFIG["vocabulary"], (12, 2))
    prompts = Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=objects(range(12)))
    rollouts = trainer.generator.generate(prompts)
    return {
        "logp": (compute_logprobs, trainer.model, rollouts),
        "reward": (reward, rollouts),
        "sample": (trainer.generator.generate, prompts),
    }
