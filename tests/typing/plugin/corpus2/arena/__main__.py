"""Rounds of everyone against everyone."""

import itertools

import numpy as np

from typedbatch import Batch, stack

from arena.league import League


def summarise(infos: dict[str, Batch]) -> Batch:
    rows = stack(list(infos.values()))
    out = Batch(norm=rows.norm.mean(), rows=int(rows.rows.sum()), best=rows.beaten.max())
    #! misspelt-read: out = Batch(norm=rows.norms.mean(), rows=int(rows.rows.sum()), best=rows.beaten.max())
    return out


def main() -> None:
    league = League(["anchor", "ann", "bob", "cem"])
    evolution: list[Batch] = []
    for season in range(3):
        surprises = []
        for a, b in itertools.combinations(league.players, 2):
            res = league.match(a, b)
            surprises.append(abs(float(res["outcome"] - res["expected"])))
            #! misspelt-item: surprises.append(abs(float(res["outcome"] - res["expect"])))
        infos = {n: i for n in league.players if (i := league.train(n, 0.5)) is not None}
        line = summarise(infos)
        line.season = season
        line.surprise = np.mean(surprises)
        evolution.append(line)
    whole = stack(evolution)
    whole.trend = np.diff(whole.surprise, prepend=whole.surprise[:1])
    #! misspelt-read: whole.trend = np.diff(whole.surprises, prepend=whole.surprise[:1])
    print(whole.trend.round(3), whole["rows"].tolist(), int(league.table.matches), int(league.table.upsets))
    print(league.ranking())
    anchor, ann = league.players["anchor"], league.players["ann"]
    print(bool(anchor.frozen), int(ann.games))
    #! branch-field: print(bool(ann.frozen), int(ann.games))
    last = league.results[-1]
    print(last.one, last.two, float(last.outcome))
    #! misspelt-read: print(last.one, last.three, float(last.outcome))


if __name__ == "__main__":
    main()
