import torch


def main() -> None:
    n, length, vocab = 2, 6, 11
    logits = torch.randn(n, length, vocab)
    ids = torch.zeros(n, length, dtype=torch.long)
    labels = ids[:, 1:]
    logp = logits.log_softmax(dim=-1)
    picked = logp.gather(2, labels.unsqueeze(-1))  # WRONG: L log-probs against L-1 labels, off by one
    print("silent, token t scored by its own position:", picked.shape)


if __name__ == "__main__":
    main()
