"""Run."""

import torch

from verl_workers.controller import run


def main() -> None:
    torch.manual_seed(0)
    print("\n".join(run(3)))


if __name__ == "__main__":
    main()
