"""Multi-turn GRPO with a tool: tokens of the model count, those of the tool and of the template do not."""
# wrong: """Multi-turn GRPO: the separator after each turn is in the ids and not in the mask, which drifts by one per turn."""

# a chat template adds tokens between turns that no turn contains: verl's and rllm's multi-turn masks
import torch
from jaxtyping import Int
from torch import Tensor

from tests.evidence.silent.shared.digits import DIGITS, draw_prompts, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

TURN = 3
PAD, EOS, SEP, TOOL, VOCAB = 5, 6, 7, 8, 9
GROUP, CLIP = 4, 0.2


class Turns(Rollouts):
    answer: Int[Tensor, "N"]
    """The first token of the last turn."""


class Conversation:
    """The tokens of one row after its prompt, and which of them the model wrote."""

    def __init__(self, prompt):
        self.prompt, self.ids, self.owned = prompt, [], []

    def add(self, turn, by_model):
        self.ids += [*turn, SEP]  # the template ends each turn
        self.owned += [by_model] * len(turn) + [False]
        # wrong: self.owned += [by_model] * len(turn)


def speak(model, conversation):
    """A turn of the model: until the end, or TURN tokens."""
    turn = []
    while len(turn) < TURN and EOS not in turn:
        ids = torch.tensor([conversation.prompt + conversation.ids + turn])
        turn.append(int(torch.multinomial(model(ids, torch.ones_like(ids, dtype=torch.bool))[0, -1].softmax(-1), 1)))
    return turn


def tool(prompt, turn):
    """The sum of the digits of the prompt, if the call has a digit at all."""
    return [TOOL, sum(prompt) % DIGITS] if any(token < DIGITS for token in turn) else [TOOL]


def padded(rows, fill):
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


@torch.no_grad()
def rollout(model, prompts):
    conversations, answers = [], []
    for ids, mask in zip(prompts.prompt_ids, prompts.prompt_mask):
        conversation = Conversation(ids[mask].tolist())
        call = speak(model, conversation)
        conversation.add(call, by_model=True)
        conversation.add(tool(conversation.prompt, call), by_model=False)
        last = speak(model, conversation)
        conversation.add(last, by_model=True)
        conversations.append(conversation)
        answers.append(last[0])
    ids = padded([c.ids for c in conversations], PAD)
    there = padded([[True] * len(c.ids) for c in conversations], False)
    owned = [c.owned + [False] * (ids.shape[1] - len(c.owned)) for c in conversations]
    owned, answer = torch.tensor(owned), torch.tensor(answers)
    return extend(prompts, Turns, response_ids=ids, response_mask=there, loss_mask=owned, answer=answer)


def score(rollouts):
    """Whether the last turn begins with the result."""
    total = (rollouts.prompt_ids * rollouts.prompt_mask).sum(1) % DIGITS
    rewards = (rollouts.answer == total).float() + 0.1 * (rollouts.answer < DIGITS)
    return extend(rollouts, Scored, rewards=rewards)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Recurrent(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def draw():
        return (score(rollout(model, repeat(draw_prompts(8), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards))[:, None] * scored.loss_mask
        with torch.no_grad():
            ready = extend(scored, Ready, old_logp=token_logp(model, scored), advantages=advantages)
        for part in ready.split(16, rng=torch.default_generator):
            ratio = (token_logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
