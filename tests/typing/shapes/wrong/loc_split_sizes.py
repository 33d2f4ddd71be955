import torch


def main() -> None:
    out = torch.zeros(32, 10)
    mean, log_std = torch.split(out, [4, 4], dim=1)  # WRONG: 4 + 4 is not 10
    print(mean.shape, log_std.shape)


if __name__ == "__main__":
    main()
