"""Self-play at rock-paper-scissors with a league; closures and nested functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from typedbatch import Batch

Policy = Callable[[np.random.Generator], int]

PAYOFF = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def make_policy(logits: np.ndarray) -> Policy:
    frozen = Batch(probs=np.exp(logits) / np.exp(logits).sum())
    frozen.cdf = np.cumsum(frozen.probs)

    def act(rng: np.random.Generator) -> int:
        return min(int(np.searchsorted(frozen.cdf, rng.random())), 2)
        #! misspelt-read: return min(int(np.searchsorted(frozen.cfd, rng.random())), 2)

    return act


def make_counter() -> tuple[Callable[[str, float], None], Callable[[], Batch]]:
    totals: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)

    def record(name: str, value: float) -> None:
        totals[name] += value
        counts[name] += 1

    def summary() -> Batch:
        table = Batch(total=np.array(list(totals.values())), count=np.array(list(counts.values())))
        table.mean = table.total / table.count
        #! misspelt-read: table.mean = table.totals / table.count
        return table

    return record, summary


def train(rounds: int, seed: int) -> tuple[Batch, Batch]:
    rng = np.random.default_rng(seed)
    state = Batch(logits=np.zeros(3), wins=0, games=0)
    league: list[Policy] = [make_policy(np.array([1.0, 0.0, 0.0]))]
    record, summary = make_counter()

    def probs() -> np.ndarray:
        z = np.exp(state.logits - state.logits.max())
        #! misspelt-read: z = np.exp(state.logit - state.logits.max())
        return np.asarray(z / z.sum())

    def play(opponent: Policy, n: int) -> Batch:
        mine = rng.choice(3, size=n, p=probs())
        games = Batch(mine=mine, theirs=np.array([opponent(rng) for _ in range(n)]))
        games.payoff = PAYOFF[games.mine, games.theirs]
        #! misspelt-read: games.payoff = PAYOFF[games.mine, games.their]
        state.games += n
        state.wins += int((games.payoff > 0).sum())
        #! misspelt-read: state.wins += int((games.payoffs > 0).sum())
        return games

    def improve(games: Batch) -> None:
        adv = games["payoff"] - games["payoff"].mean()
        grad = (np.eye(3)[games["mine"]] - probs()).T @ adv / len(games)
        #! misspelt-item: grad = (np.eye(3)[games["mine"]] - probs()).T @ adv / len(games["me"])
        state.logits = state.logits + 0.5 * grad

    for i in range(rounds):
        for index, opponent in enumerate(league[-3:]):
            games = play(opponent, 64)
            improve(games)
            record(f"opponent {index}", float(games["payoff"].mean()))
        if i % 5 == 4:
            league.append(make_policy(state.logits.copy()))
    state.win_rate = state.wins / state.games
    return state, summary()


def main() -> None:
    state, table = train(20, seed=2)
    result = Batch(logits=np.round(state["logits"], 3))
    result.entropy = -float(np.log(np.exp(result.logits) / np.exp(result.logits).sum()).mean())
    print(result.logits.tolist(), f"{float(result.entropy):.4f}", f"{float(state['win_rate']):.3f}", np.round(table["mean"], 3).tolist())
    #! misspelt-read: print(result.logits.tolist(), f"{float(result.ent):.4f}", f"{float(state['win_rate']):.3f}", np.round(table["mean"], 3).tolist())


if __name__ == "__main__":
    main()
