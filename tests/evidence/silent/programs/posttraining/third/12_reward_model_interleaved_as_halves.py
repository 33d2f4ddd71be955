"""A reward model on pairs: one forward pass with the rows c r c r, and the loss of Bradley and Terry."""
# wrong: """A reward model: the rows of a batch are c r c r, and are read as c c r r, so each is compared with a row of another pair."""

# TRL's RewardTrainer chunks (c c r r), DeepSpeed-Chat's and others' collators interleave: a mix of both runs
import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.digits import DIGITS, PAD, PROMPT, VOCAB
from tests.evidence.silent.shared.models import Decoder
from typedbatch.posttraining import Pairs

RESPONSE = 6
COUNT = 64


class RewardModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Decoder(VOCAB)
        self.score = nn.Linear(24, 1, bias=False)

    def forward(self, ids, mask):
        """Read at the last token of each row."""
        last = (mask.long() * torch.arange(ids.shape[1])).argmax(1)
        return self.score(self.body.hidden(ids, mask))[torch.arange(len(ids)), last, 0]


def dataset(rng):
    """The better of two responses has more even digits."""
    prompt_mask = torch.arange(PROMPT) >= PROMPT - torch.randint(1, PROMPT + 1, (COUNT, 1), generator=rng)
    prompt_ids = torch.randint(DIGITS, (COUNT, PROMPT), generator=rng).where(prompt_mask, PAD)
    masks = torch.arange(RESPONSE) < torch.randint(2, RESPONSE + 1, (2, COUNT, 1), generator=rng)
    ids = torch.randint(DIGITS, (2, COUNT, RESPONSE), generator=rng).where(masks, PAD)
    hits = ((ids % 2 == 0) & (ids < DIGITS)).sum(-1)
    better, rows = hits.argmax(0), torch.arange(COUNT)
    keep = hits[0] != hits[1]
    return Pairs(
        prompt_ids=prompt_ids[keep],
        prompt_mask=prompt_mask[keep],
        chosen_ids=ids[better, rows][keep],
        chosen_mask=masks[better, rows][keep],
        rejected_ids=ids[1 - better, rows][keep],
        rejected_mask=masks[1 - better, rows][keep],
    )


def collate(pairs):
    """Sequences and their mask; a row of each side in turn."""
    chosen = torch.cat([pairs.prompt_ids, pairs.chosen_ids], 1), torch.cat([pairs.prompt_mask, pairs.chosen_mask], 1)
    rejected = torch.cat([pairs.prompt_ids, pairs.rejected_ids], 1), torch.cat([pairs.prompt_mask, pairs.rejected_mask], 1)
    return tuple(torch.stack(sides, 1).flatten(0, 1) for sides in zip(chosen, rejected))


def pairwise_loss(scores):
    chosen, rejected = scores[::2], scores[1::2]
    # wrong: chosen, rejected = scores.chunk(2)
    return -F.logsigmoid(chosen - rejected).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = RewardModel()
    optimizer = torch.optim.AdamW([*model.body.parameters(), *model.score.parameters()], lr=5e-3)
    rng = torch.Generator().manual_seed(seed)

    def update(pairs):
        losses = []
        for part in pairs.split(16, rng=torch.default_generator):
            loss = pairwise_loss(model(*collate(part)))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, lambda: (dataset(rng),)
