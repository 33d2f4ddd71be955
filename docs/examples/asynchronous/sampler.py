"""The process that plays: it gets weights, and puts games that were played."""

from __future__ import annotations

from multiprocessing.connection import Connection

import torch
from torch import Tensor

from game import NUMBERS, PAD, RIGHT, START, TURNS, hint, reward
from link import Link
from model import Transformer, make_policy
from records import LAG, Games, Played
from typedbatch import checked, extend, objects

GAMES, TEMPERATURE = 128, 1.0


def begin(step: int) -> Games:
    """Return games with hidden numbers, which the trainer's step ``step`` will learn from."""
    return Games(
        prompt_ids=torch.full((GAMES, 1), START),
        prompt_mask=torch.ones(GAMES, 1, dtype=torch.bool),
        uid=objects(f"{step}-{number}" for number in range(GAMES)),
        hidden=torch.randint(NUMBERS, (GAMES,)),
        meta={"step": step, "temperature": TEMPERATURE},
    )


def next_token(policy: Transformer, ids: Tensor, mask: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Draw a token behind the last one of each row; return it and its log-probability."""
    places = (mask.long().cumsum(1) - 1).clamp(min=0)
    logits = policy(input_ids=ids, attention_mask=mask.long(), position_ids=places)[:, -1]
    logp = (logits / temperature).log_softmax(-1)
    drawn = torch.multinomial(logp.exp(), 1)
    return drawn[:, 0], logp.gather(1, drawn)[:, 0]


@checked(level="values")
@torch.no_grad()
def play(policy: Transformer, games: Games, version: int) -> Played:
    """Play games with the weights of a version: in each turn two tokens of the policy, and the answer to them."""
    ids, mask = games.prompt_ids, games.prompt_mask
    going = torch.ones(len(games), dtype=torch.bool)
    own, logps, rewards = list[Tensor](), list[Tensor](), list[Tensor]()

    def add(token: Tensor, is_own: bool, logp: Tensor, earned: Tensor) -> None:
        nonlocal ids, mask
        ids = torch.cat([ids, torch.where(going, token, PAD)[:, None]], 1)
        mask = torch.cat([mask, going[:, None]], 1)
        own.append(going & is_own)
        logps.append(logp * own[-1])
        rewards.append(earned * own[-1])

    nothing = torch.zeros(len(games))
    for _ in range(TURNS):
        first, logp = next_token(policy, ids, mask, games.meta["temperature"])
        add(first, True, logp, nothing)
        second, logp = next_token(policy, ids, mask, games.meta["temperature"])
        answer = hint(first, second, games.hidden)
        add(second, True, logp, reward(answer))
        add(answer, False, nothing, nothing)
        going = going & (answer != RIGHT)
    return extend(
        games,
        Played,
        response_ids=ids[:, 1:],
        response_mask=mask[:, 1:],
        loss_mask=torch.stack(own, 1),
        rollout_logp=torch.stack(logps, 1),
        turn_rewards=torch.stack(rewards, 1),
        turns=torch.arange(TURNS).repeat_interleave(3).repeat(len(games), 1),
        policy_step=torch.full((len(games),), version),
    )


def run(connection: Connection, unused: Connection, seed: int) -> None:
    """Play with weights that are ``LAG`` updates old, until the trainer sends None."""
    unused.close()  # The trainer's end of the pipe; while it is open here, the trainer's end is not seen.
    torch.set_num_threads(1)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    link, policy, step = Link(connection, "trainer"), make_policy(), 1
    while (message := link.get()) is not None:
        version, weights = message
        policy.load_state_dict({name: torch.as_tensor(array) for name, array in weights.items()})
        for _ in range(1 + LAG if version == 1 else 1):  # The first weights play the games of 1 + LAG steps.
            link.put(play(policy, begin(step), version).to_numpy())
            step += 1
