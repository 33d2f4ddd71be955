import torch

from data import load
from learner import CQL

def main():
    torch.manual_seed(0)
    batch = load(10, 4, 3).to_torch()
    print(CQL(4, 3).loss(batch).item())

if __name__ == "__main__":
    main()
