import torch


def main() -> None:
    cu_seqlens = torch.tensor([0, 3, 7, 12])
    lengths = cu_seqlens[1:] - cu_seqlens  # WRONG: 3 boundaries against 4
    print(lengths)


if __name__ == "__main__":
    main()
