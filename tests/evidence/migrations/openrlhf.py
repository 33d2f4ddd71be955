"""OpenRLHF's PPO: responses become experiences, advantages, minibatches and steps of an actor; and mistakes in it."""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tests.evidence.trainers.standins import stand_in
from tests.evidence.trainers.tokens import SIZE, VOCABULARY, Config, Model

REPOSITORY, COMMIT = "OpenRLHF/OpenRLHF", "3c3be6234e0cb353e76bb8019947db9dfe99fca7"
MISTAKES: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "a misspelt name": (
        ("advantages = experience.advantages\n", "advantages = experience.advantage\n"),
        ("advantages = experience.advantages\n", "advantages = experience.advantage\n"),
    ),
    "a batch of the stage before": (
        ("        experiences = self.compute_advantages_and_returns(experiences)\n", ""),
        ("return self.compute_advantages_and_returns(experiences)", "return experiences"),
    ),
    "a field that is forgotten": (
        ("            samples.action_log_probs = action_log_probs\n", ""),
        ("                action_log_probs=action_log_probs,\n", ""),
    ),
    "a dimension too many": (
        ("experience.returns.clone()", "reward.sum(-1, keepdim=True)"),
        ("returns.clone()", "reward.sum(-1, keepdim=True)"),
    ),
    "a row short": (
        ('["rollout_log_probs"][1:truncate_length]', '["rollout_log_probs"][1 : truncate_length - 1]'),
        ('["rollout_log_probs"][1:truncate_length]', '["rollout_log_probs"][1 : truncate_length - 1]'),
    ),
    "other order of the axes": (
        ("reshape(-1, args.rollout.n_samples_per_prompt)", "reshape(args.rollout.n_samples_per_prompt, -1).T"),
        ("reshape(-1, args.rollout.n_samples_per_prompt)", "reshape(args.rollout.n_samples_per_prompt, -1).T"),
    ),
}
"""Texts to replace before and after the move, by what is wrong."""
GROUPS, LONGEST = 4, 12
STEP = ("sequences", "attention_mask", "action_mask", "action_log_probs", "rollout_log_probs", "advantages", "returns")
EPISODE = ("rewards", "scores", "response_length", "truncated", "total_length")


class Cpu(str):
    """The name of the CPU, which says that it is the first GPU in the name of a device."""

    def __format__(self, _spec: str) -> str:
        return "0"


class Group:
    """A group of workers that calls one model on each batch."""

    def __init__(self, forward: Any) -> None:
        self.forward = forward

    def async_run_method_batch(self, method_name: str, sequences: Any, action_mask: Any, **given: Any) -> Any:
        calls = zip(sequences, action_mask, given["attention_mask"], strict=True)
        return [[self.forward(ids, of_action, attention_mask=mask)] for ids, of_action, mask in calls]


def numbers(root: Path) -> dict[str, Any]:
    """Run the program with two estimators of advantages, and return all that it computes, logs and learns."""
    stand_in("openrlhf")
    sys.path.insert(0, str(root))
    torch.cuda.current_device = lambda: Cpu("cpu")  # type: ignore[assignment, return-value]
    ray: Any = import_module("ray")
    ray.get = ray.put = lambda value: value
    import_module("openrlhf.trainer.ray.ppo_actor").torch_dist_barrier_and_cuda_sync = lambda: None  # type: ignore[attr-defined]
    return {estimator: run(estimator, use_loss) for estimator, use_loss in (("gae", False), ("group_norm", True))}


def run(estimator: str, use_loss: bool) -> dict[str, Any]:
    """Run two iterations with an estimator of advantages, with the KL divergence in the rewards or in the loss."""
    utils = "openrlhf.trainer.ppo_utils"
    balance = import_module(f"{utils}.experience").balance_experiences
    makers, sampling = import_module(f"{utils}.experience_maker"), import_module(f"{utils}.samples_generator")
    args = settings(estimator, use_loss)
    torch.manual_seed(0)
    generator, actor, reference, values = random.Random(0), model(), model(), torch.nn.Embedding(VOCABULARY, 1)
    critic = Group(lambda ids, of_action, **_: values(ids)[:, :-1, 0].detach() * of_action)
    groups = Group(actor), critic if estimator == "gae" else None, None, Group(reference)
    strategy, rate = strategy_of(args), Config(get_last_lr=lambda: [0.01])
    maker = makers.RemoteExperienceMaker(*groups, Config(value=0.1), strategy, Config(pad_token_id=9))
    sampler = object.__new__(sampling.SamplesGenerator)
    optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
    trainer = import_module("openrlhf.trainer.ray.ppo_actor").ActorPPOTrainer(
        strategy, actor, None, optimizer, rate, micro_train_batch_size=4, dataloader_pin_memory=False
    )
    found: dict[str, Any] = {"logged": [], "batches": []}
    for _ in range(2):
        given = [response(generator, row) for row in range(GROUPS * SIZE)]
        samples = [sampler._process_response_into_experience(one, max_len=LONGEST) for one in given]
        experiences = maker.make_experience_batch(samples)
        batches = [*experiences]
        for part in balance(experiences, args):
            trainer.replay_buffer.append(part)
        batches.append(trainer.replay_buffer.collate_fn(trainer.replay_buffer.items[:6]))
        found["batches"] += [{name: listed(getattr(one, name)) for name in STEP + EPISODE} for one in batches]
        found["logged"].append(trainer.ppo_train(0.1))
        trainer.replay_buffer.clear()
    return found | {"weights": [one.tolist() for one in actor.parameters()]}


def listed(tensor: Any) -> Any:
    """Return the numbers of a tensor, or None where there is none."""
    return None if tensor is None else tensor.tolist()


def model() -> Any:
    """Return an actor of a few hundred parameters."""
    made = import_module("openrlhf.models").Actor(Model())
    made.packing_samples = False
    return made


def response(generator: random.Random, row: int) -> dict[str, Any]:
    """Return a response as vLLM gives it, with a prompt of three tokens; some are longer than is allowed."""
    length = generator.randint(5, LONGEST + 2)
    return {
        "prompt": f"prompt {row // SIZE}",
        "label": None,
        "observation_tokens": [generator.randrange(1, VOCABULARY) for _ in range(length)],
        "action_ranges": [(3, length)],
        "rollout_log_probs": [0.0] * 3 + [-generator.uniform(1, 3) for _ in range(length - 3)],
        "reward": generator.random(),
        "scores": generator.random(),
        "truncated": length > LONGEST,
        "extra_logs": {"turns": row % 3},
    }


def strategy_of(args: Any) -> Any:
    """Return a strategy without DeepSpeed, on one device."""
    return Config(
        args=args, ring_attn_group=None, accumulated_gradient=2, is_rank_0=lambda: False,
        all_reduce=lambda status: status, backward=lambda loss, *_: loss.backward(),
        optimizer_step=lambda optimizer, *_, **__: optimizer.step(),
        get_grad_norm=lambda actor: float(sum(one.grad.square().sum() for one in actor.parameters())),
    )  # fmt: skip


def settings(estimator: str, use_loss: bool) -> Any:
    """Return the settings that the program reads; those of most sections have names of their own, and are together."""
    args = Config(
        num_nodes=1, num_gpus_per_node=2, eps_clip_low_high=[0.2, 0.2], dual_clip=None, policy_loss_type="ppo",
        aux_loss_coef=0.0, entropy_coef=0.01, estimator=estimator, gamma=1.0, lambd=0.95, no_std_norm=False,
        is_correction_enable=True, is_correction_threshold=[0.5, 5.0], is_correction_type="tis", ring_attn_size=1,
        tensor_parallel_size=1, packing_samples=False, clip_range=None, stop_properly_penalty_coef=0.5, max_epochs=2,
        micro_batch_size=8, n_samples_per_prompt=SIZE, dynamic_batch_enable=False, colocate_all=False,
        colocate_actor_ref=False, colocate_critic_reward=False, async_enable=False,
        kl=Config(use_loss=use_loss, init_coef=0.1, estimator="k3"),
    )  # fmt: skip
    args.update(dict.fromkeys(("actor", "advantage", "algo", "ds", "reward", "rollout", "train", "vllm"), args))
    return args
