import torch


def main() -> None:
    n, d, k = 16, 4, 3
    x = torch.zeros(n, d)
    w = torch.zeros(k, d)
    scores = x @ w.T
    assert scores.shape == (n, k)
    x = torch.cat([x, torch.zeros(2, d)])
    n += 2
    bias = torch.ones(n)
    total = (x @ w.T) + bias[:, None]
    assert total.shape == (18, 3)
    n, d = total.shape
    total = total * torch.ones(d) - torch.zeros(n, 1)
    assert total.sum(0).shape == (d,) and total.sum(1).shape == (n,)
    half = n // 2
    first, second = total[:half], total[half:]
    assert (first - second).shape == (9, 3)


if __name__ == "__main__":
    main()
