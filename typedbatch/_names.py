"""Names of the same field in different libraries, and the most likely meaning of an unknown name.

The module imports nothing from the package, so that the mypy plugin can give the same hints as the run time.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

# Each row has the names of one field, in the order of typedbatch.naming.Convention; an empty string means that the
# library has no such field. A name with a dot is that of a field in a nested batch. Sources: tianshou/data/types.py;
# ray/rllib/core/columns.py; the signature of gymnasium's step(); stable_baselines3/common/type_aliases.py; torchrl's
# collectors and value estimators.
REINFORCEMENT_LEARNING: Final = (
    ("obs", "obs", "obs", "observations", "observation"),
    ("obs_next", "new_obs", "next_obs", "next_observations", "next.observation"),
    ("act", "actions", "action", "actions", "action"),
    ("rew", "rewards", "reward", "rewards", "next.reward"),
    ("terminated", "terminateds", "terminated", "", "next.terminated"),
    ("truncated", "truncateds", "truncated", "", "next.truncated"),
    ("done", "dones", "done", "dones", "next.done"),
    ("info", "infos", "info", "infos", ""),
    ("returns", "value_targets", "", "returns", "value_target"),
    ("adv", "advantages", "", "advantages", "advantage"),
    ("v_s", "vf_preds", "", "old_values", "state_value"),
    ("logp_old", "action_logp", "", "old_log_prob", "action_log_prob"),
    ("logits", "action_dist_inputs", "", "", "logits"),
    ("weight", "weights", "", "", "priority_weight"),
)
# Other names of these fields in programs, and of fields that only Tianshou's types have. They are used for hints only,
# since the meaning of such a name is likely but not certain. Older programs have done in place of terminated; verl has
# old_log_probs and values, torchrl sample_log_prob and _weight, CleanRL logprobs.
_ALSO: Final = {
    "obs": "states obs_t vector_obs",
    "obs_next": "new_observation next_observation next_state next_states obs_tp1",
    "act": "acts",
    "rew": "r",
    "terminated": "done dones terminal terminals terminations",
    "truncated": "truncations timeout timeouts time_outs",
    "returns": "return ret rets reward_to_go rewards_to_go",
    "adv": "advs",
    "v_s": "value values state_values baseline",
    "logp_old": "old_log_probs old_logprobs sample_log_prob behavior_logp log_probs_old logp",
    "log_prob": "logp log_probs logprobs logprob action_log_prob",
    "dist": "distribution action_dist",
    "state": "hidden_state hidden_states rnn_state state_in state_out",
    "weight": "is_weights importance_weights _weight",
    "hidden": "h hx",
    "cell": "c cx",
    "taus": "tau",
    "q_value": "q_values qvalues",
}
# The same table for post-training, where a name can mean different things in two projects: verl's response_mask is
# SkyRL's loss_mask. It is about names only; layouts and dtypes differ too. Sources: verl 1dda039, TRL f2cd577,
# OpenRLHF 3c3be62, NeMo-RL 7ea279a, SkyRL a956457, prime-rl 559b447, slime 624b824, AReaL cbff54d.
POST_TRAINING: Final = (
    ("prompt_ids", "prompts", "prompt_ids", "", "", "", "", "", ""),
    ("prompt_mask", "", "prompt_mask", "", "", "", "", "", ""),
    ("response_ids", "responses", "completion_ids", "", "", "", "", "", ""),
    ("input_ids", "input_ids", "", "sequences", "input_ids", "sequences", "input_ids", "tokens", "input_ids"),
    ("attention_mask", "attention_mask", "", "attention_mask", "", "attention_mask", "", "", "attention_mask"),
    ("position_ids", "position_ids", "", "", "", "", "position_ids", "", "position_ids"),
    ("response_mask", "", "completion_mask", "", "", "response_mask", "", "", ""),
    (
        "loss_mask", "response_mask", "", "action_mask", "token_mask", "loss_mask", "loss_mask", "loss_masks",
        "loss_mask",
    ),
    ("response_length", "", "", "", "", "", "", "response_lengths", ""),
    (
        "rollout_logp", "rollout_log_probs", "sampling_per_token_logps", "rollout_log_probs", "generation_logprobs",
        "rollout_logprobs", "inference_logprobs", "rollout_log_probs", "logprobs",
    ),
    (
        "old_logp", "old_log_probs", "old_per_token_logps", "action_log_probs", "prev_logprobs", "action_log_probs",
        "", "log_probs", "prox_logp",
    ),
    (
        "ref_logp", "ref_log_prob", "ref_per_token_logps", "base_action_log_probs", "reference_policy_logprobs",
        "base_action_log_probs", "ref_logprobs", "ref_log_probs", "ref_logp",
    ),
    ("advantages",) * 9,
    ("values", "values", "", "values", "values", "values", "", "values", "values"),
    ("returns", "returns", "", "returns", "returns", "returns", "", "returns", "returns"),
    ("rewards", "reward_score", "rewards", "rewards", "total_reward", "", "", "rewards", "rewards"),
    ("token_rewards", "token_level_rewards", "", "", "", "rewards", "", "", "tot_rewards"),
    ("is_weights", "rollout_is_weights", "importance_sampling_ratio", "", "", "", "", "", ""),
    ("truncated", "", "", "truncated", "truncated", "", "", "truncated", ""),
    ("uid", "uid", "", "index", "idx", "uids", "group_id", "group_index", ""),
)  # fmt: skip

_ROWS: Final = {row[0]: {name for name in row if name} for row in REINFORCEMENT_LEARNING}
_OWN_NAMES: Final = {row[0] for row in (*REINFORCEMENT_LEARNING, *POST_TRAINING) if row[0]}
_GROUPS: Final = [{name} | _ROWS.get(name, set()) | set(_ALSO.get(name, "").split()) for name in {**_ROWS, **_ALSO}]


def nearest(name: str, names: Collection[str]) -> str:
    """Return the one of ``names`` that ``name`` most likely stands for, or an empty string if none is close.

    It is the name of the same field in another library, or else a name of similar spelling.
    """
    return _nearest(name, tuple(names))


@lru_cache(maxsize=1024)
def _nearest(name: str, names: tuple[str, ...]) -> str:
    for group in _GROUPS:
        if name in group:
            for other in names:
                if other in group:
                    return other
    if name in _OWN_NAMES:  # The name of a known field is not a misspelling of another: old_logp is not rollout_logp.
        names = tuple(other for other in names if other not in _OWN_NAMES)
    from difflib import get_close_matches  # imported here because only errors need it

    return next(iter(get_close_matches(name, names, n=1)), "")
