"""RLHF in stages: rollout, score, advantages, policy and value update."""
