"""What conditions, loops and exceptions leave open, and what they do not."""

from __future__ import annotations

import contextlib
import copy
import enum
import sys

import numpy as np

from typedbatch import Batch, ObsBatchProtocol, conforms

FLAG = len(sys.argv) > 1


def one_branch():
    batch = Batch(obs=1)
    if FLAG:
        batch.rew = 1
    batch.rew  # E: rew


def both_branches():
    batch = Batch(obs=1)
    if FLAG:
        batch.rew = 1
    else:
        batch.rew = 2
    batch.rew


def same_flag():
    batch = Batch(obs=1)
    if FLAG:
        batch.rew = 1
    if FLAG:
        batch.rew


def early():
    batch = Batch(obs=1)
    if FLAG:
        batch.rew = 1
    if not FLAG:
        return None
    return batch.rew


def first_round(values):
    total = Batch(count=0)
    for i, value in enumerate(values):
        if i == 0:
            total.sum = np.zeros(3)
        total.sum = total.sum + value
        total.count += 1
    return total.sum / total.count if values else None


first_round([])
first_round([np.zeros(3)] * 3)


def state_machine():
    batch, state = Batch(obs=1), "begin"
    while state != "end":
        if state == "begin":
            batch.rew = 1
            state = "middle"
        elif state == "middle":
            batch.rew
            state = "end"


def asked():
    batch = Batch(obs=1)
    if "rew" in batch:
        batch.rew
    if hasattr(batch, "act"):
        batch.act
    return getattr(batch, "done", None)


def tried():
    batch = Batch(obs=1)
    try:
        return batch.rew
    except AttributeError:
        return None


def tried_for_another():
    batch = Batch(obs=1)
    try:
        return batch.rew  # E: rew
    except ValueError:
        return None


def suppressed():
    with contextlib.suppress(KeyError):
        Batch(obs=1)["rew"]


def known(kind="ppo"):
    batch = Batch(obs=1)
    if kind == "ppo":
        batch.adv = 1
    return batch.adv


known()


def narrowed(batch):
    if isinstance(batch, np.ndarray):
        return batch.mean()
    if conforms(batch, ObsBatchProtocol):
        return batch.info
    return batch.obs


narrowed(Batch(obs=1))


def matched(kind):
    batch = Batch(obs=1)
    match kind:
        case "a":
            batch.rew = 1
        case _:
            batch.rew = 2
    batch.rew
    batch.act  # E: act


def computed(name):
    batch = Batch(obs=1)
    batch[name] = 1
    batch.rew
    vars(batch)["done"] = 1
    batch.done


def joined():
    return np.concatenate([Batch(obs=np.zeros(3)), Batch(obs=np.zeros(3))]).anything


def slots():
    batch = Batch(obs=1)
    batch.__dict__["rew"] = 1
    return batch.rew


def finally_read():
    batch = Batch()
    try:
        batch.rew = 1
    finally:
        batch.done = 1
    batch.rew
    batch.act  # E: act


def looped():
    batch = Batch(obs=1)
    for _ in range(3):
        if "old" in batch:
            batch.old
        if FLAG:
            batch.seen
        batch.seen = 1


def while_walrus(lines):
    batch = Batch()
    while (line := next(lines, None)) is not None:
        batch[line] = 1
    return batch.anything


def filled(batch: Batch) -> None: ...


def handed_on() -> ObsBatchProtocol:
    batch = Batch(obs=1)
    filled(batch)
    return batch


def decided(batch):
    if "rew" in batch:
        batch.act
    if hasattr(batch, "obs") and hasattr(batch, "keys"):
        batch.done  # E: done
    if "adv" not in batch:
        batch.adv = 1
    batch.adv
    batch.ret  # E: ret


decided(Batch(obs=1))


def given_in_one_branch(flag):
    batch = Batch(info=Batch())
    if flag:
        batch.obs = 1
    handed_over(batch)  # E: obs
    handed_over(batch)


def handed_over(batch: ObsBatchProtocol) -> None: ...


class Mode(enum.Enum):
    TRAIN = 1
    TEST = 2


def of_constants(batch, mode, weight=0.0, **settings):
    if weight > 0:
        batch.entropy = 1
    if settings.get("is_late", False):
        batch.late = 1
    if mode is Mode.TRAIN:
        batch.adv = 1
    return batch.entropy, batch.late, batch.adv  # E: entropy


def of_modes(batch, mode):
    if mode is Mode.TRAIN:
        batch.adv = 1
    return batch.adv  # E: adv


def of_settings(batch, **settings):
    if settings.get("is_late", False):
        batch.late = 1
    return batch.late  # E: late


of_constants(Batch(obs=1), Mode.TRAIN, is_late=True)
of_modes(Batch(obs=1), Mode.TEST)
of_settings(Batch(obs=1), rate=1)


def asked_and_read(batch, names):
    answer = "rew" in batch
    print(answer)
    for name in names:
        if name in sys.argv:
            print(name)
    batch[names[1]]  # E: adv
    while "end" not in batch:
        batch.end = 1
        batch.seen  # E: seen
    return batch.rew  # E: rew


asked_and_read(Batch(obs=1), ["obs", "adv"])
copied = copy.deepcopy([Batch(obs=1)])
copied[0].rew  # E: rew
