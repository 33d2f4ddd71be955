"""GRPO with a tokenizer that merges: the trainer takes the tokens that were sampled, and the reward the text."""
# wrong: """GRPO: the trainer encodes the text of a response again, which merges letters that were sampled one by one."""

# "No more retokenization drift" (vLLM, Agent Lightning): encode(decode(ids)) is not ids
from functools import partial
from uuid import uuid4

import torch

from tests.evidence.silent.shared.digits import PROMPT, RESPONSE
from tests.evidence.silent.shared.models import Window
from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

PIECES = ["a", "b", "c", "ab", "bc", "ca"]
PAD, EOS, VOCAB = len(PIECES), len(PIECES) + 1, len(PIECES) + 2
GROUP, CLIP = 6, 0.2


class Tokenizer:
    """The longest piece first, as merges do."""

    def encode(self, text):
        ids = []
        while text:
            piece = max((p for p in PIECES if text.startswith(p)), key=len)
            ids.append(PIECES.index(piece))
            text = text[len(piece) :]
        return ids

    def decode(self, ids):
        return "".join(PIECES[i] for i in ids if i < len(PIECES))


tokenizer = Tokenizer()


def draw_prompts(count):
    texts = ["".join("abc"[i] for i in torch.randint(3, (int(n),))) for n in torch.randint(1, PROMPT + 1, (count,))]
    rows = [tokenizer.encode(text) for text in texts]
    ids = torch.tensor([[PAD] * (PROMPT - len(row)) + row for row in rows])
    return Prompts(prompt_ids=ids, prompt_mask=ids != PAD, uid=objects(uuid4().hex for _ in rows))


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    banned = torch.zeros(VOCAB).index_fill(0, torch.tensor([PAD]), -1e9)
    for _ in range(RESPONSE):
        token = torch.multinomial((model(ids, mask)[:, -1] + banned).softmax(-1), 1)
        ids, mask = torch.cat([ids, token], 1), torch.cat([mask, torch.ones_like(token, dtype=torch.bool)], 1)
    rows = []
    for row in ids[:, PROMPT:].tolist():
        row = row[: row.index(EOS) + 1] if EOS in row else row
        row = list(row)
        # wrong: row = tokenizer.encode(tokenizer.decode(row)) + [EOS] * (row[-1] == EOS)
        rows.append(row)
    response_ids = torch.tensor([row + [PAD] * (RESPONSE - len(row)) for row in rows])
    there = torch.tensor([[True] * len(row) + [False] * (RESPONSE - len(row)) for row in rows])
    return extend(prompts, Rollouts, response_ids=response_ids, response_mask=there, loss_mask=there.clone())


def score(rollouts):
    """How often the text goes from a letter to the one after it, for six letters."""
    texts = [tokenizer.decode(row) for row in rollouts.response_ids.tolist()]
    rises = [sum(pair in ("ab", "bc", "ca") for pair in zip_pairs(text[:6])) / 5 for text in texts]
    return extend(rollouts, Scored, rewards=torch.tensor(rises))


def zip_pairs(text):
    return [a + b for a, b in zip(text, text[1:])]


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    before = before.index_fill(-1, torch.tensor([PAD]), -1e9)  # the sampler never draws it
    chosen = before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0]
    return chosen.masked_fill(~batch.response_mask, 0.0)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Window(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(12), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old_logp = token_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(24, rng=torch.default_generator):
            ratio = (token_logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -gain[part.loss_mask].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = Window(VOCAB)
    prompts = repeat(draw_prompts(6), GROUP)
    return {"sample": (partial(sample, model), prompts), "logp": (token_logp, model, sample(model, prompts))}
