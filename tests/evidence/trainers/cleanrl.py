"""CleanRL at fe8d8a03: the part of ``ppo.py`` from advantages to the last optimizer step, as it is written there."""

import runpy
import textwrap
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from gymnasium import spaces

from tests.evidence.trainers.steps import ENVS, FEATURES, GAMMA, LAM, LENGTH, reports_of, steps
from typedbatch import Batch

PATH = Path(find_spec("cleanrl.ppo").origin)
SPACES = {"single_observation_space": spaces.Box(-1, 1, (FEATURES,)), "single_action_space": spaces.Discrete(3)}


class Ppo:
    """The names that the script has at the end of a rollout, and the lines that come after it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        names, envs = runpy.run_path(str(PATH), run_name="ppo"), SimpleNamespace(**SPACES)
        sizes = {"num_envs": ENVS, "num_steps": LENGTH, "batch_size": LENGTH * ENVS, "minibatch_size": 16}
        args = names["Args"](gamma=GAMMA, gae_lambda=LAM, **sizes)
        self.agent = names["Agent"](envs)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=args.learning_rate, eps=1e-5)
        names |= {"args": args, "envs": envs, "agent": self.agent, "optimizer": self.optimizer}
        self.names = names | {"device": torch.device("cpu")}

    def run(self, begin: str, end: str, **names: Any) -> dict[str, Any]:
        """Run the lines from one that begins with a text to one that begins with another, with these names."""
        lines = PATH.read_text(encoding="utf-8").splitlines()
        first, last = (next(n for n, line in enumerate(lines) if line.strip().startswith(one)) for one in (begin, end))
        space = {**self.names, **names}
        exec(compile("\n" * first + textwrap.dedent("\n".join(lines[first:last])), str(PATH), "exec"), space)
        return space

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps()
        with torch.no_grad():
            act, logp, _, values = self.agent.get_action_and_value(batch.obs)
            after = self.agent.get_value(batch.obs_next)
        return steps(act=act.float(), logp_old=logp, v_s=values, v_s_=after)

    def graded(self, batch: Any, **names: Any) -> Any:
        """Return steps with returns and advantages."""
        ended = (batch.terminated | batch.truncated).float()
        names.setdefault("agent", SimpleNamespace(get_value=lambda _: batch.v_s_[-1]))
        names |= {"dones": torch.cat([torch.zeros_like(ended[:1]), ended[:-1]]), "next_done": ended[-1]}
        names |= {"rewards": batch.rew, "values": batch.v_s, "next_obs": batch.obs_next[-1]}
        made = self.run("# bootstrap value", "# flatten", **names)
        return Batch(batch, adv=made["advantages"], returns=made["returns"])

    def update(self, batch: Any) -> None:
        """Run the epochs."""
        read = {"obs": batch.obs, "actions": batch.act, "logprobs": batch.logp_old, "values": batch.v_s}
        self.run("# flatten", "y_pred, y_true", advantages=batch.adv, returns=batch.returns, **read)

    def grade_and_update(self, batch: Any) -> None:
        """Run both."""
        self.update(self.graded(batch, agent=self.agent))


reports = partial(reports_of, Ppo)
