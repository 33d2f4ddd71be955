import torch


def main() -> None:
    ratio = torch.ones(128)
    clipped = (ratio - 1.0).abs() > 0.2
    print(clipped.mean())  # WRONG: mean of a bool tensor raises


if __name__ == "__main__":
    main()
