"""Three steps."""

import torch

from rlhf_stages import stages
from rlhf_stages.models import PolicyWithValue, RewardModel
from rlhf_stages.settings import Settings


def main() -> None:
    torch.manual_seed(0)
    cfg = Settings()
    policy, ref, reward_model = PolicyWithValue(cfg.vocab), PolicyWithValue(cfg.vocab), RewardModel(cfg.vocab)
    ref.load_state_dict(policy.state_dict())
    optim = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(cfg.steps):
        responses = stages.rollout(policy, cfg)
        scored = stages.score(responses, policy, ref, reward_model)
        experience = stages.advantages(scored, cfg)
        for minibatch in experience.split(cfg.minibatch_size):
            out = stages.losses(minibatch, policy, cfg)
            optim.zero_grad()
            out["total"].backward()
            optim.step()
        print(f"{step} score {scored.scores.mean().item():.4f} kl {stages.mean_kl(scored):.4f}")
        #! wrong-argument: print(f"{step} score {scored.scores.mean().item():.4f} kl {stages.mean_kl(responses):.4f}")


if __name__ == "__main__":
    main()
