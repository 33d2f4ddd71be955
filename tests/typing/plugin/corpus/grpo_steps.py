"""One GRPO run on a toy task: sample groups of completions, score, normalise per group, update with a clip."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from typedbatch import Batch

VOCAB, LENGTH, PAD = 12, 6, 0


class TinyLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.rnn = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.rnn(self.embed(ids))
        logits: Tensor = self.head(hidden)
        return logits


def token_logps(model: TinyLM, ids: Tensor) -> Tensor:
    logits = model(ids[:, :-1])
    return torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None]).squeeze(-1)


@torch.no_grad()
def generate(model: TinyLM, prompts: Tensor, num_generations: int) -> Batch:
    ids = prompts.repeat_interleave(num_generations, dim=0)
    group = torch.arange(len(prompts)).repeat_interleave(num_generations)
    width = prompts.shape[1]
    for _ in range(LENGTH):
        probs = torch.softmax(model(ids)[:, -1], -1)
        ids = torch.cat([ids, torch.multinomial(probs, 1)], dim=1)
    mask = torch.zeros_like(ids)
    mask[:, width:] = 1
    return Batch(input_ids=ids, completion_mask=mask[:, 1:], group=group)


def grpo_advantages(rewards: Tensor, num_generations: int) -> Tensor:
    grouped = rewards.view(-1, num_generations)
    adv = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
    return adv.reshape(-1)


class GRPOTrainer:
    def __init__(self, policy: TinyLM, reference: TinyLM, reward_fn: Callable[[Tensor], Tensor], beta: float) -> None:
        self.policy, self.reference, self.reward_fn, self.beta = policy, reference, reward_fn, beta
        self.optim = torch.optim.Adam(policy.parameters(), lr=3e-3)
        self.num_generations = 4

    def make_experience(self, prompts: Tensor) -> dict[str, float]:
        rollout = generate(self.policy, prompts, self.num_generations)
        data = Batch(input_ids=rollout["input_ids"], mask=rollout["completion_mask"].float())
        #! misspelt-item: data = Batch(input_ids=rollout["input_ids"], mask=rollout["completions_mask"].float())
        data.rewards = self.reward_fn(data.input_ids)
        #! misspelt-read: data.rewards = self.reward_fn(data.inputs_ids)
        data.advantages = grpo_advantages(data.rewards, self.num_generations)
        #! misspelt-read: data.advantages = grpo_advantages(data.scores, self.num_generations)
        with torch.no_grad():
            data.old_logps = token_logps(self.policy, data.input_ids)
            if self.beta > 0:
                data.ref_logps = token_logps(self.reference, data.input_ids)
        losses = [self.train_step(mb) for _ in range(2) for mb in data.split(8)]
        return {"reward": data.rewards.mean().item(), "loss": sum(losses) / len(losses), "kl": self.kl(data)}
        #! misspelt-read: return {"reward": data.reward.mean().item(), "loss": sum(losses) / len(losses), "kl": self.kl(data)}

    def train_step(self, mb: Batch) -> float:
        logps = token_logps(self.policy, mb["input_ids"])
        ratio = torch.exp(logps - mb["old_logps"])
        #! misspelt-item: ratio = torch.exp(logps - mb["logps_old"])
        adv = mb["advantages"][:, None]
        per_token = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
        if self.beta > 0:
            delta = mb["ref_logps"] - logps
            per_token = per_token + self.beta * (delta.exp() - delta - 1)
        loss = (per_token * mb["mask"]).sum() / mb["mask"].sum()
        #! old-name: loss = (per_token * mb["mask"]).sum() / mb["completion_mask"].sum()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return float(loss.item())

    def kl(self, data: Batch) -> float:
        if self.beta == 0:
            return 0.0
        diff = data["old_logps"] - data["ref_logps"]
        return float((diff * data["mask"]).mean())


def count_sevens(ids: Tensor) -> Tensor:
    return (ids == 7).float().sum(1)


def main() -> None:
    torch.manual_seed(0)
    policy, reference = TinyLM(), TinyLM()
    reference.load_state_dict(policy.state_dict())
    trainer = GRPOTrainer(policy, reference, count_sevens, beta=0.04)
    prompts = torch.randint(1, VOCAB, (4, 3))
    for step in range(3):
        stats = trainer.make_experience(prompts)
        #! batch-for-array: stats = trainer.make_experience(Batch(ids=prompts))
        print(step, {name: round(value, 4) for name, value in stats.items()})


if __name__ == "__main__":
    main()
