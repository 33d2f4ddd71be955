"""Train a policy against a frozen copy of itself."""

import copy

import torch

from dpo_pipeline.data import describe, make_pairs
from dpo_pipeline.model import Bigram
from dpo_pipeline.train import run


def main() -> None:
    torch.manual_seed(0)
    pairs = make_pairs(64)
    print(describe(pairs))
    policy = Bigram()
    stats = run(policy, pairs, copy.deepcopy(policy), epochs=3)
    print(f"accuracy {float(stats['accuracy']):.3f} margin {float(stats['margin']):.3f}")
    #! misspelt-item: print(f"accuracy {float(stats['acc']):.3f} margin {float(stats['margin']):.3f}")


if __name__ == "__main__":
    main()
