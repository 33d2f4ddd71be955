"""RLOO with the prompts repeated as a whole (a b a b), and rewards grouped accordingly."""
# wrong: """The batch was repeated as a whole (a b a b), but rewards are grouped as if copies stood together (a a b b)."""
import argparse
import copy

import torch
from torch import Tensor, nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import repeat


def get_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rloo_k", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--context_length", type=int, default=3)
    parser.add_argument("--response_length", type=int, default=6)
    parser.add_argument("--kl_coef", type=float, default=0.05)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--vocab", type=int, default=16)
    return parser.parse_args([])


args = get_args()
pad_id, eos_id = 0, 1


class LM(nn.Module):
    """Mixes the embeddings of earlier tokens with weights that fade with distance."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.embed = nn.Embedding(args.vocab, width)
        self.rates = nn.Parameter(torch.linspace(-2, 2, width))
        self.net = nn.Sequential(nn.Linear(2 * width, 64), nn.Tanh(), nn.Linear(64, args.vocab))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embed(ids) * mask[..., None]
        place = mask.cumsum(1).float()
        gap = (place[:, :, None] - place[:, None]).clamp(min=0)  # how many tokens earlier
        earlier = torch.ones(ids.shape[1], ids.shape[1]).tril()
        weight = torch.sigmoid(self.rates)[None, None, None] ** gap[..., None] * earlier[..., None]
        return self.net(torch.cat([x, (weight * x[:, None]).sum(2)], -1))


def forward_logprobs(model: LM, batch) -> Tensor:
    query_response = torch.cat((batch.prompt_ids, batch.response_ids), 1)
    attention = torch.cat((batch.prompt_mask, batch.response_mask), 1)
    logits = model(query_response, attention)[:, batch.prompt_ids.shape[1] - 1 : -1]
    logprob = torch.gather(logits.log_softmax(-1), 2, batch.response_ids.unsqueeze(-1)).squeeze(-1)
    return torch.masked_fill(logprob, ~batch.response_mask, 0.0)


@torch.no_grad()
def generate(model: LM, queries: Prompts) -> Rollouts:
    ids, attention = queries.prompt_ids, queries.prompt_mask
    unfinished = torch.ones(len(queries), 1, dtype=torch.bool)
    for _ in range(args.response_length):
        probs = model(ids, attention)[:, -1].softmax(-1)
        nxt = torch.where(unfinished, torch.multinomial(probs, 1), pad_id)
        ids, attention = torch.cat((ids, nxt), 1), torch.cat((attention, unfinished), 1)
        unfinished = unfinished & (nxt != eos_id)
    start = queries.prompt_ids.shape[1]
    mask = attention[:, start:]
    return extend(queries, Rollouts, response_ids=ids[:, start:], response_mask=mask, loss_mask=mask)


def get_reward(rollouts: Rollouts) -> Scored:
    """High tokens, relative to the last token of the prompt: prompts differ in how much can be reached."""
    last = rollouts.prompt_ids[:, -1:].float()
    gain = (rollouts.response_ids - last) * rollouts.response_mask / args.vocab
    return extend(rollouts, Scored, rewards=gain.sum(1) / rollouts.response_mask.sum(1) + last[:, 0] / 4)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = LM()
    ref_policy = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.learning_rate)

    def draw():
        shape = (args.batch_size, args.context_length)
        mask = torch.arange(args.context_length) >= torch.randint(0, args.context_length, (args.batch_size, 1))
        ids = torch.where(mask, torch.randint(2, args.vocab, shape), pad_id)
        queries = Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"q{i}" for i in range(args.batch_size)))
        queries = repeat(queries, args.rloo_k, interleave=False)
        return (get_reward(generate(policy, queries)),)

    def update(batch: Scored) -> dict[str, float]:
        logprobs = forward_logprobs(policy, batch)
        ref_logprobs = forward_logprobs(ref_policy, batch)
        with torch.no_grad():
            kl = (logprobs - ref_logprobs).sum(1)
            rlhf_reward = batch.rewards - args.kl_coef * kl
            by_prompt = rlhf_reward.reshape(args.rloo_k, -1)
            # wrong: by_prompt = rlhf_reward.reshape(-1, args.rloo_k).T
            baseline = (by_prompt.sum(0) - by_prompt) / (args.rloo_k - 1)
            advantages = by_prompt - baseline
            advantages = advantages.flatten()
            # wrong: advantages = advantages.T.flatten()
        loss = -(advantages * (logprobs * batch.loss_mask).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
        optimizer.step()
        return {
            "loss/policy": loss.item(), "objective/kl": kl.mean().item(), "objective/score": batch.rewards.mean().item(),
            "policy/grad_norm": grad_norm.item(), "objective/advantage_std": advantages.std().item(),
        }

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    policy = LM()
    mask = torch.arange(args.context_length) >= torch.randint(0, args.context_length, (10, 1))
    ids = torch.where(mask, torch.randint(2, args.vocab, (10, args.context_length)), pad_id)
    queries = Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(range(10)))
    rollouts = generate(policy, queries)
    return {
        "logp": (forward_logprobs, policy, rollouts),
        "reward": (get_reward, rollouts),
        "sample": (lambda prompts: generate(policy, prompts), queries),
    }
