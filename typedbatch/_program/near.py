"""Slips in names: whether a name is another one misspelt.

It is asked where it cannot be seen which fields a batch has, so a yes must be as good as sure.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_SHORTEST = 3
_TWO_SLIPS = 6  # letters from which on two slips are still no other word

# fmt: off
_SHORT = frozenset({
    "acc", "acs", "act", "add", "adv", "age", "alt", "arm", "avg", "bin", "bit", "cap", "cat", "cfg", "clip", "col",
    "cor", "cos", "cost", "cov", "cur", "cut", "dat", "data", "date", "day", "deg", "dim", "dir", "dis", "dist", "div",
    "dst", "dur", "end", "env", "eos", "eps", "err", "ess", "eval", "fit", "flag", "fut", "gap", "goal", "hid", "hop",
    "idx", "img", "ind", "info", "input", "inv", "key", "lam", "last", "lat", "len", "lens", "list", "lob", "lock",
    "log", "logp", "logs", "loss", "lost", "low", "mask", "mass", "mat", "max", "mean", "met", "min", "mix", "mod",
    "mode", "mse", "name", "net", "next", "nll", "node", "norm", "note", "now", "num", "obj", "obs", "off", "old",
    "out", "pad", "pair", "part", "pas", "past", "path", "pay", "pix", "pop", "port", "pos", "pose", "post", "pre",
    "prev", "pri", "prio", "prob", "probe", "prop", "ptr", "rand", "rank", "rate", "raw", "ref", "reg", "rel", "res",
    "rest", "ret", "rew", "rng", "role", "roll", "rot", "row", "run", "sat", "sec", "seed", "self", "sem", "seq",
    "sid", "sign", "sim", "sin", "size", "skip", "src", "start", "stat", "state", "std", "step", "stop", "sub", "sum",
    "tag", "tail", "tan", "task", "temp", "term", "test", "text", "tgt", "tick", "tid", "time", "tok", "top", "tot",
    "train", "trunc", "turn", "type", "uid", "user", "val", "vals", "var", "vec", "vel", "view", "vol", "wait", "wall",
    "way", "win", "word", "work",
})
_COUNTED = frozenset({
    "agent", "arg", "batch", "child", "config", "device", "env", "episode", "epoch", "frame", "game", "goal", "group",
    "idx", "iter", "iteration", "item", "key", "layer", "level", "loss", "metric", "param", "player", "process",
    "prompt", "round", "sample", "seed", "seq", "shape", "split", "stat", "step", "task", "token", "turn", "update",
    "value", "worker",
})
# fmt: on
"""Short words that fields are called by. One of them is never a slip for another: ``ret`` is not a misspelt ``rew``.
And things of which one batch may hold both the one of the moment and how many there are, or all: ``epoch``, ``epochs``.
"""


def near_miss(name: str, known: Collection[str]) -> str:
    """Return the known name that a name is a misspelling of, or an empty text if it may be a name of its own."""
    if name in known or len(name) < _SHORTEST:
        return ""
    return next((one for one in sorted(known) if len(one) >= _SHORTEST and _is_slip(name, one)), "")


def _is_slip(name: str, known: str) -> bool:
    words, known_words = _words(name), _words(known)
    if sorted(words) == sorted(known_words):
        return True  # an underscore too many, or ``next_obs`` for ``obs_next``
    if len(words) == len(known_words):
        pairs = [pair for pair in zip(words, known_words, strict=True) if pair[0] != pair[1]]
        return len(pairs) == 1 and _is_slip_of_word(*pairs[0])
    joined, known_joined = "".join(words), "".join(known_words)
    return joined == known_joined or (len(joined) >= _TWO_SLIPS and _slips(joined, known_joined) == 1)


def _is_slip_of_word(word: str, known: str) -> bool:
    if _bare(word) == _bare(known) or min(len(word), len(known)) < _SHORTEST:
        return False
    if word in (f"{known}s", f"{known}es") or known in (f"{word}s", f"{word}es"):
        return min(word, known, key=len) not in _COUNTED
    if word in _SHORT or word.removesuffix("s") in _SHORT:
        return False
    return _slips(word, known) <= (2 if min(len(word), len(known)) >= _TWO_SLIPS else 1)


def _bare(name: str) -> str:
    """Return a name without digits, as ``q1`` and ``q2`` are two fields."""
    return re.sub(r"\d", "", name)


def _words(name: str) -> list[str]:
    return [part for part in name.split("_") if part]


def _slips(one: str, other: str) -> int:
    """Return the number of letters left out, added, replaced, or swapped with the next one (Damerau, 1964)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
