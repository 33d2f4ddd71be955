import torch


def main() -> None:
    hidden = torch.zeros(20, 64)
    weight = torch.zeros(32, 64)
    out = hidden @ weight  # WRONG: (20, 64) @ (32, 64), weight.T was meant
    print(out.shape)


if __name__ == "__main__":
    main()
