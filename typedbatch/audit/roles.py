"""Roles: names of fields that have the same meaning in reinforcement learning and in post-training."""

from __future__ import annotations

from typing import Final

ADVANTAGES: Final = frozenset({"adv", "advantages", "advantage", "advs"})
RETURNS: Final = frozenset({"returns", "return_", "ret", "value_targets"})
REWARDS: Final = frozenset({"rew", "reward", "rewards"})
SCORES: Final = frozenset({"score", "scores"})
TERMINATED: Final = frozenset({"terminated"})
TRUNCATED: Final = frozenset({"truncated"})
NEXT_OBS: Final = frozenset({"obs_next", "next_obs"})
OBS: Final = frozenset({"obs"})
OLD_LOGP: Final = frozenset(
    {"logp_old", "old_logp", "logp", "old_log_probs", "log_prob", "log_probs", "logprobs", "old_logprobs"}
)
ROLLOUT_LOGP: Final = frozenset({"rollout_logp", "rollout_log_probs", "sampler_logp", "behavior_logp"})
REF_LOGP: Final = frozenset({"ref_logp", "ref_log_prob", "ref_chosen_logp", "ref_rejected_logp", "teacher_logp"})
LOSS_MASKS: Final = frozenset({"loss_mask"})
MASKS: Final = frozenset({"loss_mask", "response_mask", "chosen_mask", "rejected_mask", "prompt_mask", "mask"})
TOKENS: Final = frozenset({"response_ids", "chosen_ids", "rejected_ids", "input_ids", "prompt_ids"})
MUST_READ: Final = OLD_LOGP | ADVANTAGES | frozenset({"weight"})
"""Fields that are of no use but in a loss."""
