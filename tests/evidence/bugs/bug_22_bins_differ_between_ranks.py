"""Ranks pack their rows by tokens, and get different numbers of micro-batches."""

PROJECT = "verl, EasyR1"
LINK = "https://github.com/verl-project/verl/issues/6176"
CAUGHT_BY = ""


def bins(lengths: list[int], tokens: int) -> list[list[int]]:
    out: list[list[int]] = [[]]
    for length in lengths:
        if sum(out[-1]) + length > tokens:
            out.append([])
        out[-1].append(length)
    return out


def broken() -> str:
    counts = [len(bins(lengths, 10)) for lengths in ([9, 9, 9], [3, 3, 3])]
    assert counts == [3, 1]
    return f"{counts} forward passes; rank 0 waits forever in the second all-gather"
