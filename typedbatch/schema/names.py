"""What fields are called elsewhere: the same thing has another name in each library."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from typedbatch.errors import did_you_mean

_SYNONYMS = [
    set(line.split())
    for line in """
    obs observation observations states obs_t vector_obs
    obs_next next_obs new_obs next_observation next_observations next_state next_states obs_tp1
    act action actions acts
    rew reward rewards r
    terminated done dones terminal terminals terminateds terminations
    truncated truncateds truncations timeout timeouts time_outs
    info infos
    returns return ret rets value_targets reward_to_go rewards_to_go
    adv advantage advantages advs
    v_s value values vf_preds state_value state_values baseline
    logp_old action_logp old_log_probs old_log_prob old_logprobs sample_log_prob behavior_logp log_probs_old logp
    log_prob logp log_probs logprobs logprob action_log_prob
    logits action_dist_inputs
    dist distribution action_dist
    state hidden_state hidden_states rnn_state state_in state_out
    weight weights is_weights importance_weights _weight
    hidden h hx
    cell c cx
    taus tau
    q_value q_values qvalues
    """.strip().splitlines()
]
# RLlib: new_obs, actions, rewards, terminateds, action_logp, vf_preds, value_targets, action_dist_inputs, state_in.
# Stable-Baselines3: observations, next_observations, actions, dones, old_log_prob. torchrl: action, done,
# sample_log_prob, state_value, _weight. verl: old_log_probs, values, advantages. CleanRL: obs, logprobs, dones.


@lru_cache(maxsize=1024)
def nearest(name: str, names: tuple[str, ...]) -> str:
    """The one of ``names`` that ``name`` is most likely called there; empty if none comes close."""
    for group in _SYNONYMS:
        if name in group:
            for other in names:
                if other in group:
                    return other
    return did_you_mean(name, names).removeprefix("; did you mean '").removesuffix("'?")


def child(path: str, name: str) -> str:
    """The path of a field inside ``path``, as Python writes it: ``obs.cam``, ``obs["agent 1"].mask``."""
    if name.isidentifier():
        return f"{path}.{name}" if path else name
    return f"{path}[{name!r}]"


def parts_of(path: str) -> tuple[str, ...]:
    """The names in a path, outermost first: ``("obs", "agent 1")``."""
    return tuple(ast.literal_eval(found[1:-1]) if found[0] == "[" else found for found in _PART.findall(path))


_PART = re.compile(r"""\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|[^.\[]+""")


def outermost(path: str) -> str:
    """The field of the batch itself that a path goes through."""
    if "." not in path and "[" not in path:
        return path
    found = _PART.match(path)
    return found.group() if found else path
