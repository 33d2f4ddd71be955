import torch


def main() -> None:
    logits = torch.randn(8, 50)
    logp = logits - torch.logsumexp(logits, dim=-1)  # WRONG: (8, 50) - (8,)
    print(logp.shape)


if __name__ == "__main__":
    main()
