"""Programs with a mistake about records and batches, each below its name."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float32, Int64
from torch import Tensor
from typedbatch import Batch

# ---- alias_not_summed
from typing import Annotated, TypeAlias
from jaxtyping import Float
from typedbatch import BatchRecord, Finite
# Aliases of declared arrays, as fields and parameters.
PerToken: TypeAlias = Float[Tensor, "N R"]
Row: TypeAlias = Float[Tensor, "N"]
Checked: TypeAlias = Annotated[Float[Tensor, "N R"], Finite]


class Scored(BatchRecord):
    logp: PerToken
    mask: Checked
    reward: Row


def mean(scored: Scored) -> Row:
    return (scored.logp * scored.mask).sum(-1) * scored.mask  # WRONG: not summed


def main() -> None:
    print(mean(Scored(logp=torch.ones(2, 3), mask=torch.ones(2, 3), reward=torch.ones(2))))

# ---- rec_advantage_norm_axis
class Groups(Batch):
    prompt: Int64[Tensor, "P L"]
    rew: Float32[Tensor, "P G"]

def grpo(groups: Groups) -> Float32[Tensor, "P G"]:
    centred = groups.rew - groups.rew.mean(dim=-1)  # WRONG: (P, G) - (P,), keepdim is missing
    return centred / 2.0

def main() -> None:
    groups = Groups(prompt=torch.zeros(3, 7, dtype=torch.long), rew=torch.randn(3, 4))
    print(grpo(groups))

# ---- rec_bool_done_minus
class Step(Batch):
    rew: Float32[Tensor, "N"]
    done: Bool[Tensor, "N"]

def returns(step: Step, value: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    return step.rew + 0.99 * (1 - step.done) * value  # WRONG: 1 - bool

def main() -> None:
    print(returns(Step(rew=torch.zeros(3), done=torch.zeros(3, dtype=torch.bool)), torch.zeros(3)))

# ---- rec_bootstrap_row
class Rollout(Batch):
    rew: Float32[np.ndarray, "T B"]
    val: Float32[np.ndarray, "T+1 B"]
    done: Float32[np.ndarray, "T B"]

def advantages(roll: Rollout) -> Float32[np.ndarray, "T B"]:
    return roll.rew + 0.99 * roll.val[1:] * (1 - roll.done) - roll.val  # WRONG: T rows against T+1

def main() -> None:
    f = np.float32
    print(advantages(Rollout(rew=np.zeros((5, 2), f), val=np.zeros((6, 2), f), done=np.zeros((5, 2), f))))

# ---- rec_default_float64
class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]

def empty_rows(n: int) -> Rows:
    obs = np.zeros((n, 4), dtype=np.float32)
    return Rows(obs=obs, rew=np.zeros(n))  # WRONG: np.zeros is float64, Float32 is declared

def main() -> None:
    print(empty_rows(3).rew.dtype)

# ---- rec_done_as_float
class Rows(Batch):
    rew: Float32[Tensor, "N"]
    done: Bool[Tensor, "N"]

def tail(n: int) -> Rows:
    return Rows(rew=torch.zeros(n), done=torch.zeros(n))  # WRONG: done is float32, Bool is declared

def main() -> None:
    print(tail(3).done.dtype)

# ---- rec_field_into_declared_parameter
class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    act: Float32[np.ndarray, "N 2"]

def normalise(obs: Float32[np.ndarray, "B 4"]) -> Float32[np.ndarray, "B 4"]:
    return obs / 10.0

def main() -> None:
    rows = Rows(obs=np.zeros((3, 4), np.float32), act=np.zeros((3, 2), np.float32))
    print(normalise(rows.act).shape)  # WRONG: act has 2 columns, 4 are declared

# ---- rec_flatten_renamed
class Rollout(Batch):
    obs: Float32[Tensor, "T B 8"]
    logp: Float32[Tensor, "T B"]

def env_major(roll: Rollout) -> Float32[Tensor, "B T"]:
    t, b = roll.logp.shape
    return roll.logp.view(b, t)  # WRONG: view renames the axes, transpose was meant

def main() -> None:
    roll = Rollout(obs=torch.zeros(3, 2, 8), logp=torch.arange(6.0).view(3, 2))
    print(env_major(roll), "should be", roll.logp.T)

# ---- rec_gather_action_rank
class Rows(Batch):
    obs: Float32[Tensor, "N 4"]
    act: Int64[Tensor, "N"]

def chosen_logp(rows: Rows, logits: Float32[Tensor, "N A"]) -> Float32[Tensor, "N"]:
    logp = F.log_softmax(logits, dim=-1)
    return logp.gather(-1, rows.act)  # WRONG: index of rank 1 into rank 2

def main() -> None:
    rows = Rows(obs=torch.zeros(5, 4), act=torch.zeros(5, dtype=torch.long))
    print(chosen_logp(rows, torch.zeros(5, 3)))

# ---- rec_hidden_layers_axis
class Seq(Batch):
    hidden: Float32[Tensor, "N H"]
    done: Float32[Tensor, "N"]

def carry(seq: Seq) -> Float32[Tensor, "N H"]:
    return seq.hidden * (1 - seq.done)  # WRONG: (N, H) with (N,) aligns N with H

def main() -> None:
    print(carry(Seq(hidden=torch.zeros(4, 16), done=torch.zeros(4))).shape)

# ---- rec_importance_transposed
class Traj(Batch):
    logp: Float32[Tensor, "B T"]
    old_logp: Float32[Tensor, "B T"]
    adv: Float32[Tensor, "B T"]

def surrogate(traj: Traj) -> Float32[Tensor, "B T"]:
    ratio = (traj.logp - traj.old_logp).exp()
    return ratio * traj.adv.T  # WRONG: (B, T) with (T, B)

def main() -> None:
    x = torch.zeros(2, 5)
    print(surrogate(Traj(logp=x, old_logp=x, adv=x)))

# ---- rec_int_mask_invert
class Tokens(Batch):
    ids: Int64[Tensor, "N L"]
    mask: Int64[Tensor, "N L"]

def blank_padding(tokens: Tokens, scores: Float32[Tensor, "N L"]) -> Float32[Tensor, "N L"]:
    return scores.masked_fill(~tokens.mask, 0.0)  # WRONG: ~ of an integer mask

def main() -> None:
    ones = torch.ones(2, 3, dtype=torch.long)
    print(blank_padding(Tokens(ids=ones, mask=ones), torch.ones(2, 3)))

# ---- rec_logp_shift
class Completion(Batch):
    ids: Int64[Tensor, "N L"]
    mask: Float32[Tensor, "N L"]
    logp: Float32[Tensor, "N L-1"]

def ppo_tokens(c: Completion) -> Float32[Tensor, "N"]:
    return (c.logp * c.mask).sum(-1)  # WRONG: L-1 against L, mask[:, 1:] was meant

def main() -> None:
    c = Completion(ids=torch.zeros(2, 6, dtype=torch.long), mask=torch.ones(2, 6), logp=torch.zeros(2, 5))
    print(ppo_tokens(c))

# ---- rec_mse_against_column
class Rows(Batch):
    act: Int64[Tensor, "N"]
    ret: Float32[Tensor, "N"]

def loss(rows: Rows, q: Float32[Tensor, "N A"]) -> Float32[Tensor, ""]:
    picked = torch.take_along_dim(q, rows.act[:, None], dim=1)
    return F.mse_loss(picked, rows.ret)  # WRONG: (N, 1) against (N,)

def main() -> None:
    rows = Rows(act=torch.zeros(4, dtype=torch.long), ret=torch.arange(4.0))
    print("perfect q has loss", loss(rows, rows.ret.unsqueeze(1).expand(4, 3)))

# ---- rec_reward_column
class Rows(Batch):
    obs: Float32[Tensor, "N 3"]
    rew: Float32[Tensor, "N"]

def collect(obs: Float32[Tensor, "N 3"], raw: Float32[Tensor, "N"]) -> Rows:
    rew = raw.unsqueeze(-1)
    return Rows(obs=obs, rew=rew)  # WRONG: rew is (N, 1), (N,) is declared

def main() -> None:
    print(collect(torch.zeros(5, 3), torch.zeros(5)).rew.shape)

# ---- rec_reward_model_margin
class Pair(Batch):
    chosen: Float32[Tensor, "N 1"]
    rejected: Float32[Tensor, "N 1"]
    margin: Float32[Tensor, "N"]

def rm_loss(pair: Pair) -> Float32[Tensor, ""]:
    return -F.logsigmoid(pair.chosen - pair.rejected - pair.margin).mean()  # WRONG: (N, 1) - (N,)

def main() -> None:
    margin = torch.arange(4.0)
    p = Pair(chosen=margin.unsqueeze(1), rejected=torch.zeros(4, 1), margin=margin)
    print("should be log 2 = 0.693:", rm_loss(p))

# ---- rec_rows_disagree
class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    act: Int64[np.ndarray, "N"]

def main() -> None:
    obs = np.zeros((128, 4), dtype=np.float32)
    act = np.zeros(127, dtype=np.int64)
    rows = Rows(obs=obs, act=act)  # WRONG: N = 128 and N = 127
    print(rows.obs.shape, rows.act.shape)

# ---- rec_sac_target_logp
class Transition(Batch):
    obs: Float32[Tensor, "N 4"]
    rew: Float32[Tensor, "N"]
    done: Float32[Tensor, "N"]

def target(rows: Transition, next_q: Float32[Tensor, "N 1"]) -> Float32[Tensor, "N"]:
    return rows.rew + 0.99 * (1 - rows.done) * next_q  # WRONG: (N,) with (N, 1) is (N, N)

def main() -> None:
    rows = Transition(obs=torch.zeros(6, 4), rew=torch.zeros(6), done=torch.zeros(6))
    print(target(rows, torch.zeros(6, 1)).shape)

# ---- rec_stack_adds_axis
class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]

def join(a: Float32[np.ndarray, "N 4"], b: Float32[np.ndarray, "N 4"], rew: Float32[np.ndarray, "2*N"]) -> Rows:
    return Rows(obs=np.stack([a, b]), rew=rew)  # WRONG: stack gives (2, N, 4), concatenate was meant

def main() -> None:
    x = np.zeros((3, 4), np.float32)
    print(join(x, x, np.zeros(6, np.float32)).obs.shape)

# ---- rec_time_axis_sum
class Rollout(Batch):
    rew: Float32[np.ndarray, "T B"]
    done: Bool[np.ndarray, "T B"]
    boot: Float32[np.ndarray, "B"]

def episode_return(roll: Rollout) -> Float32[np.ndarray, "B"]:
    return (roll.rew * ~roll.done).sum(axis=1) + roll.boot  # WRONG: axis=1 sums environments, (T,) + (B,)

def main() -> None:
    f = np.float32
    roll = Rollout(rew=np.zeros((5, 2), f), done=np.zeros((5, 2), bool), boot=np.zeros(2, f))
    print(episode_return(roll).shape)

# ---- shipped_alias_prompt_mask
from typedbatch.posttraining import Rollouts
# Fields of a shipped stage, which are declared by aliases.
def masked(batch: Rollouts) -> Tensor:
    return batch.prompt_ids * batch.response_mask  # WRONG: prompts are of another width


def main() -> None:
    print(masked.__name__)
