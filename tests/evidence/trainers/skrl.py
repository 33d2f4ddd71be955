"""skrl at c29ced63: ``compute_gae``, and ``PPO.record_transition`` with ``PPO.update``."""

from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from skrl.agents.torch.ppo import PPO
from skrl.agents.torch.ppo.ppo import compute_gae
from skrl.memories.torch import RandomMemory
from skrl.utils.model_instantiators.torch import categorical_model, deterministic_model

from tests.evidence.trainers.steps import ENVS, FEATURES, GAMMA, LAM, LENGTH, reports_of, steps
from typedbatch import Batch

SPACES = {"observation_space": spaces.Box(-1, 1, (FEATURES,)), "action_space": spaces.Discrete(3)}
NETWORK = [{"name": "net", "input": "OBSERVATIONS", "layers": [16], "activations": "elu"}]
OPTIONS = {"learning_epochs": 2, "discount_factor": GAMMA, "gae_lambda": LAM}


class Ppo:
    """An agent, and the parts of its learning."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        policy = categorical_model(**SPACES, device="cpu", network=NETWORK, output="ACTIONS")
        value = deterministic_model(**SPACES, device="cpu", network=NETWORK, output="ONE")
        models, memory = {"policy": policy, "value": value}, RandomMemory(memory_size=LENGTH, num_envs=ENVS)
        self.ppo = PPO(models=models, memory=memory, device="cpu", cfg=OPTIONS, **SPACES)
        self.ppo.init()
        self.ppo.training = True

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps()
        with torch.no_grad():
            act, outputs = self.ppo.policy.act({"observations": batch.obs.flatten(0, 1)}, role="policy")
            read = ({"observations": obs} for obs in (batch.obs, batch.obs_next))
            values, after = (self.ppo.value.act(inputs, role="value")[0] for inputs in read)
        return steps(act=act.float(), logp_old=outputs["log_prob"], v_s=values, v_s_=after)

    def graded(self, batch: Any) -> Any:
        """Return steps with returns and advantages."""
        read = {"rewards": batch.rew, "terminated": batch.terminated, "values": batch.v_s}
        settings = {"discount_factor": GAMMA, "lambda_coefficient": LAM}
        returns, adv = compute_gae(**read, next_values=batch.v_s_[-1], **settings)
        return Batch(batch, adv=adv, returns=returns)

    def update(self, batch: Any) -> None:
        """Update with rows, and with the advantages that they have, in place of those of the memory."""
        names = {"actions": "act", "log_prob": "logp_old", "values": "v_s", "returns": "returns", "advantages": "adv"}
        views = {name: batch[field][:, None] for name, field in names.items()}
        self.ppo.memory.tensors_view = {"observations": batch.obs, **views}
        vars(self.ppo)["_current_next_observations"] = torch.zeros(ENVS, FEATURES)
        self.ppo.update(timestep=0, timesteps=1)

    def grade_and_update(self, batch: Any) -> None:
        """Record and update with the trainer's own memory."""
        for step in batch:
            vars(self.ppo).update(_current_values=step.v_s[:, None], _current_log_prob=step.logp_old[:, None])
            seen = {"observations": step.obs, "next_observations": step.obs_next, "states": None, "next_states": None}
            ends = {name: step[name][:, None] for name in ("terminated", "truncated")} | {"infos": {}}
            done = {"actions": step.act[:, None], "rewards": step.rew[:, None], "timestep": 0, "timesteps": 1}
            self.ppo.record_transition(**seen, **done, **ends)
        self.ppo.update(timestep=0, timesteps=1)


reports = partial(reports_of, Ppo)
