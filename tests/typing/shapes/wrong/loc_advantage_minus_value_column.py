import torch


def main() -> None:
    returns = torch.zeros(64)
    values = torch.zeros(64, 1)
    advantages = returns - values  # WRONG: (64,) - (64, 1) is (64, 64)
    print(advantages.shape)


if __name__ == "__main__":
    main()
