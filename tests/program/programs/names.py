"""Batches whose fields have names that are not known, as those of agents: what is in all of them is."""

from __future__ import annotations

import re
import sys

import numpy as np

from typedbatch import Batch

agents = sys.stdin.read().split()
team = Batch({agent: Batch(obs=1, rew=2) for agent in agents})
team["red"].obs
team["red"].adv  # E: adv
team.blue.rew
for agent in agents:
    team[agent].obs
    team[agent].done
    team[agent].returns = 1
team["red"].returns
team["red"].pop("obs")
team["blue"].obs

out = Batch()
for agent in agents:
    out[agent] = Batch(act=1)
out["red"].act
out["red"].logp  # E: logp
out.get("red", Batch(logits=1)).logits

mixed = Batch({agent: Batch(obs=1) for agent in agents})
mixed.update(vars(sys))
mixed["red"].anything

nested = Batch(players={agent: {"obs": 1} for agent in agents})
nested.players["red"].obs
nested.players["red"].act  # E: act

by_name = {agent: Batch(obs=1) for agent in agents}
batch = Batch(by_name)
by_name["red"].act = 1
batch["red"].act

either = Batch({agent: Batch(obs=1) for agent in agents}) if agents else Batch()
either["red"].obs

nested = Batch(a_0=np.ones(3), agent_0=Batch(obs=np.zeros(3)))
keys = nested.keys()
for key in keys:
    if key.startswith("agent_"):
        nested[key].obs
        nested[key].act  # E: act
    if re.match("agent.*", key):
        nested[key].obs
[nested[key].obs for key in keys if key in sys.argv]
[nested[key].rew for key in keys if key.endswith("t_0")]  # E: rew
for key in ("next_obs", "next_act"):
    team.red[key.replace("next_", "")]  # E: act
    team.red[key.removeprefix("next_", 1)]
