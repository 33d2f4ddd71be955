"""A reward model from pairs (Bradley-Terry), whose score is read at the last token of each response."""
# wrong: """A reward model: the score is read in the last column, which is padding in all rows but the longest."""

# TRL issue 2778: the position of the score and the side of the padding
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.models import CausalLM
from typedbatch import checked
from typedbatch.posttraining import Pairs

LETTERS, P, R = 8, 3, 6
PAD, EOS, VOCAB = 8, 9, 10


class RewardModel(CausalLM):
    def __init__(self):
        super().__init__(VOCAB)
        self.score = nn.Linear(16, 1, bias=False)

    def forward(self, ids, mask):
        scores = self.score(self.hidden(ids, mask)).squeeze(-1)
        last = mask.shape[1] - 1 - mask.flip(1).long().argmax(1)  # of the tokens that exist
        # wrong: return scores[:, -1]
        return scores[torch.arange(len(scores)), last]
        # wrong: without this line


class Preferences:
    """Responses of digits in rising order are preferred to the same digits in another order."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, n=24):
        prompt_ids = torch.from_numpy(self.rng.integers(0, LETTERS, (n, P)))
        lengths = self.rng.integers(2, R, n)
        ids = torch.full((2, n, R), PAD)
        for i, k in enumerate(lengths):
            digits = self.rng.choice(LETTERS, k, replace=False)
            ids[0, i, : k + 1] = torch.tensor([*np.sort(digits), EOS])
            ids[1, i, : k + 1] = torch.tensor([*np.sort(digits)[::-1], EOS])
        mask = torch.arange(R) <= torch.from_numpy(lengths)[:, None]
        return Pairs(
            prompt_ids=prompt_ids,
            prompt_mask=torch.ones(n, P, dtype=torch.bool),
            chosen_ids=ids[0],
            chosen_mask=mask,
            rejected_ids=ids[1],
            rejected_mask=mask.clone(),
        )


@checked
def ranking_loss(model: nn.Module, pairs: Pairs):
    prompt_ids, prompt_mask = pairs.prompt_ids, pairs.prompt_mask
    chosen = model(torch.cat([prompt_ids, pairs.chosen_ids], 1), torch.cat([prompt_mask, pairs.chosen_mask], 1))
    rejected = model(torch.cat([prompt_ids, pairs.rejected_ids], 1), torch.cat([prompt_mask, pairs.rejected_mask], 1))
    return -F.logsigmoid(chosen - rejected).mean(), (chosen > rejected).float().mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = RewardModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = Preferences(seed)

    def update(pairs):
        loss, accuracy = ranking_loss(model, pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return accuracy.item()

    return update, lambda: (data(),)
