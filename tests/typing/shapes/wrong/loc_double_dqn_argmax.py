import torch


def main() -> None:
    batch, actions = 32, 6
    online_q = torch.randn(batch, actions)
    target_q = torch.randn(batch, actions)
    best = online_q.argmax(dim=1)
    next_value = target_q.gather(1, best)  # WRONG: argmax without keepdim has rank 1
    print(next_value.shape)


if __name__ == "__main__":
    main()
