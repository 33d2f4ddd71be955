"""DAPO's token-level loss over micro-batches: sums, divided by the tokens of the whole mini-batch."""
# wrong: """The token mean is taken within each micro-batch and divided by their number, whatever the counts of tokens."""
import torch
import torch.nn.functional as F

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import chunk, groups, repeat

VOCAB, PAD, STOP = 14, 0, 1
QUESTIONS, SAMPLES, MAX_NEW, ACCUMULATION = 6, 8, 12, 16
LOW, HIGH = 0.2, 0.28


class Net(torch.nn.Module):
    """A GRU; tokens are moved to the left, so that padding comes after them."""

    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(VOCAB, 20)
        self.rnn = torch.nn.GRU(20, 32, batch_first=True)
        self.out = torch.nn.Linear(32, VOCAB)

    def forward(self, tokens):
        return self.out(self.rnn(self.emb(tokens))[0])


def moved_left(ids, mask):
    order = (~mask).long().argsort(dim=1, stable=True)
    return ids.gather(1, order), order


def logprobs(net, batch):
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    ids, _ = moved_left(torch.cat([batch.prompt_ids, batch.response_ids], 1), mask)
    logits = net(ids[:, :-1])
    all_logp = -F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    first = batch.prompt_mask.sum(1, keepdim=True) - 1  # all_logp[:, t] is of token t + 1
    place = (first + torch.arange(batch.response_ids.shape[1])).clamp(max=all_logp.shape[1] - 1)
    return all_logp.gather(1, place).masked_fill(~batch.response_mask, 0.0)


def sampler(net):
    @torch.no_grad()
    def sample(prompts):
        n = len(prompts)
        response = torch.zeros(n, MAX_NEW, dtype=torch.long)
        there = torch.zeros(n, MAX_NEW, dtype=torch.bool)
        logps = torch.zeros(n, MAX_NEW)
        ids, _ = moved_left(prompts.prompt_ids, prompts.prompt_mask)
        length = prompts.prompt_mask.sum(1)
        states, _ = net.rnn(net.emb(ids))
        hidden = states[torch.arange(n), length - 1][None]
        going = torch.ones(n, dtype=torch.bool)
        for t in range(MAX_NEW):
            distribution = net.out(hidden[0]).log_softmax(-1)
            token = torch.multinomial(distribution.exp(), 1)[:, 0]
            response[:, t], there[:, t] = token.where(going, PAD), going
            logps[:, t] = distribution.gather(1, token[:, None])[:, 0] * going
            _, hidden = net.rnn(net.emb(token)[:, None], hidden)
            going = going & (token != STOP)
        return extend(
            prompts, Rollouts, response_ids=response, response_mask=there, loss_mask=there, rollout_logp=logps,
            truncated=going,
        )

    return sample


def score(rollouts):
    """1 for each even token, less for odd ones, and a soft punishment of overlong responses."""
    tokens = (rollouts.response_ids > STOP) & rollouts.response_mask
    even = (rollouts.response_ids % 2 == 0) & tokens
    rewards = (2 * even.sum(1) - tokens.sum(1)) / 4 - 0.5 * rollouts.truncated.float()
    return extend(rollouts, Scored, rewards=rewards)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    net = Net()
    adam = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.0)
    sample = sampler(net)

    def draw():
        mask = torch.arange(3) >= torch.randint(0, 3, (QUESTIONS, 1))
        prompts = Prompts(
            prompt_ids=torch.randint(2, VOCAB, (QUESTIONS, 3)) * mask, prompt_mask=mask, uid=objects(range(QUESTIONS))
        )
        return (score(sample(repeat(prompts, SAMPLES))),)

    def update(scored):
        by = groups(scored, "uid", size=SAMPLES)
        adv = (scored.rewards - by.mean(scored.rewards)) / (by.std(scored.rewards) + 1e-6)
        with torch.no_grad():
            old = logprobs(net, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=adv[:, None] * scored.loss_mask)
        logged = {"loss": 0.0, "reward": scored.rewards.mean().item(), "length": scored.loss_mask.sum(1).float().mean().item()}
        for _ in range(2):
            adam.zero_grad()
            total = ready.loss_mask.sum()
            for micro in chunk(ready, ACCUMULATION):
                ratio = (logprobs(net, micro) - micro.old_logp).exp()
                pg = -torch.min(ratio * micro.advantages, ratio.clamp(1 - LOW, 1 + HIGH) * micro.advantages)
                loss = (pg * micro.loss_mask).sum() / total
                # wrong: loss = (pg * micro.loss_mask).sum() / micro.loss_mask.sum() / ACCUMULATION
                loss.backward()
                logged["loss"] += loss.item()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            adam.step()
        return logged

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    net = Net()
    mask = torch.arange(3) >= torch.randint(0, 3, (12, 1))
    prompts = Prompts(prompt_ids=torch.randint(2, VOCAB, (12, 3)) * mask, prompt_mask=mask, uid=objects(range(12)))
    rollouts = sampler(net)(prompts)
    return {"logp": (logprobs, net, rollouts), "reward": (score, rollouts), "sample": (sampler(net), prompts)}
