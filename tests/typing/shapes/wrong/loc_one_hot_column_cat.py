import torch
import torch.nn.functional as F


def main() -> None:
    obs = torch.zeros(16, 5)
    action = torch.zeros(16, 1, dtype=torch.long)
    one_hot = F.one_hot(action, 3).float()
    joined = torch.cat([obs, one_hot], dim=-1)  # WRONG: one_hot of (16, 1) has rank 3
    print(joined.shape)


if __name__ == "__main__":
    main()
