"""PPO with a critic, a KL penalty per token, and the score of the sequence on its last token."""
# wrong: """The score of the sequence is put on the first padding after the end, where GAE and the loss mask it out."""
import copy
from types import SimpleNamespace

import torch
import torch.nn as nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored

hp = SimpleNamespace(
    vocab=18, pad=0, eos=1, n=24, prompt=3, response=8, hidden=40, gamma=1.0, lam=0.95, kl_coef=0.05, clip=0.2,
    vf_clip=0.3, vf_coef=0.5, lr=2e-3, epochs=2, minibatches=2,
)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(hp.vocab, 24)
        self.cell = nn.GRUCell(24, hp.hidden)
        self.lm_head = nn.Linear(hp.hidden, hp.vocab)
        self.v_head = nn.Linear(hp.hidden, 1)

    def step(self, hidden, token, there):
        """Padding leaves the state as it was."""
        return torch.where(there[:, None], self.cell(self.embed(token), hidden), hidden)

    def forward(self, ids, mask):
        hidden, outputs = torch.zeros(len(ids), hp.hidden), []
        for t in range(ids.shape[1]):
            hidden = self.step(hidden, ids[:, t], mask[:, t])
            outputs.append(hidden)
        states = torch.stack(outputs, 1)
        return self.lm_head(states), self.v_head(states)[..., 0]


def evaluate(model, batch):
    """Log-probs and values of the response's tokens; both come from the state before the token."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits, values = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    now = slice(batch.prompt_ids.shape[1] - 1, -1)
    logp = logits[:, now].log_softmax(-1).gather(2, batch.response_ids[:, :, None])[:, :, 0]
    return logp * batch.response_mask, values[:, now] * batch.response_mask


@torch.no_grad()
def rollout(model, prompts):
    hidden = torch.zeros(len(prompts), hp.hidden)
    for t in range(hp.prompt):
        hidden = model.step(hidden, prompts.prompt_ids[:, t], prompts.prompt_mask[:, t])
    tokens, masks, running = [], [], torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(hp.response):
        token = torch.distributions.Categorical(logits=model.lm_head(hidden)).sample().where(running, hp.pad)
        tokens.append(token)
        masks.append(running)
        hidden = model.step(hidden, token, running)
        running = running & (token != hp.eos)
    mask = torch.stack(masks, 1)
    return extend(
        prompts, Rollouts, response_ids=torch.stack(tokens, 1), response_mask=mask, loss_mask=mask,
        response_length=mask.sum(1), truncated=running,
    )


def score(rollouts):
    """The number of neighbours in ascending order, less the number of others, and less 1 without an end."""
    ids, mask = rollouts.response_ids, rollouts.response_mask
    both = mask[:, 1:] & (ids[:, 1:] != hp.eos)
    up = torch.where(ids[:, 1:] > ids[:, :-1], 1.0, -1.0) * both
    return extend(rollouts, Scored, rewards=up.sum(1) - rollouts.truncated.float())


def gae(rewards, values, mask):
    advantages, last, after = torch.zeros_like(rewards), 0.0, 0.0
    for t in reversed(range(rewards.shape[1])):
        there = mask[:, t].float()
        delta = rewards[:, t] + hp.gamma * after - values[:, t]
        last = there * (delta + hp.gamma * hp.lam * last)
        after = there * values[:, t]
        advantages[:, t] = last
    return advantages, (advantages + values) * mask


def setup(seed=0):
    torch.manual_seed(seed)
    model = ActorCritic()
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=hp.lr, eps=1e-5)

    def draw():
        mask = torch.arange(hp.prompt) >= torch.randint(hp.prompt, (hp.n, 1))
        ids = torch.randint(2, hp.vocab, (hp.n, hp.prompt)).masked_fill(~mask, hp.pad)
        return (score(rollout(model, Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(range(hp.n))))),)

    @torch.no_grad()
    def prepare(scored):
        logp, values = evaluate(model, scored)
        ref_logp, _ = evaluate(reference, scored)
        rewards = -hp.kl_coef * (logp - ref_logp)
        length = scored.response_mask.sum(1)
        ends = length - 1
        # wrong: ends = length.clamp(max=rewards.shape[1] - 1)
        rewards[torch.arange(len(rewards)), ends] += scored.rewards
        advantages, returns = gae(rewards, values, scored.response_mask)
        seen = advantages[scored.loss_mask]
        advantages = (advantages - seen.mean()) / (seen.std() + 1e-8) * scored.loss_mask
        return extend(
            scored, Ready, old_logp=logp, ref_logp=ref_logp, values=values, returns=returns, advantages=advantages
        )

    def update(scored):
        ready, stats = prepare(scored), {}
        for _ in range(hp.epochs):
            for mini in ready.split(hp.n // hp.minibatches):
                logp, values = evaluate(model, mini)
                count = mini.loss_mask.sum()
                ratio = (logp - mini.old_logp).exp()
                pg = torch.max(-mini.advantages * ratio, -mini.advantages * ratio.clamp(1 - hp.clip, 1 + hp.clip))
                near = mini.values + (values - mini.values).clamp(-hp.vf_clip, hp.vf_clip)
                vf = 0.5 * torch.max((values - mini.returns) ** 2, (near - mini.returns) ** 2)
                pg_loss, vf_loss = (pg * mini.loss_mask).sum() / count, (vf * mini.loss_mask).sum() / count
                optimizer.zero_grad()
                (pg_loss + hp.vf_coef * vf_loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                stats = {"policy_loss": pg_loss.item(), "value_loss": vf_loss.item(), "score": scored.rewards.mean().item()}
        return stats

    return update, draw


def stages(seed=0):
    torch.manual_seed(seed)
    model = ActorCritic()
    mask = torch.arange(hp.prompt) >= torch.randint(hp.prompt, (8, 1))
    ids = torch.randint(2, hp.vocab, (8, hp.prompt)).masked_fill(~mask, hp.pad)
    prompts = Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(range(8)))
    rollouts = rollout(model, prompts)
    return {
        "logp": (lambda m, batch: evaluate(m, batch)[0], model, rollouts),
        "reward": (score, rollouts),
        "sample": (lambda p: rollout(model, p), prompts),
    }
