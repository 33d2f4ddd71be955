"""A program that is right, of which something else than its first lines decides what fits: conddef."""

import torch

if torch.cuda.is_available():

    def dev(x):
        return x @ torch.zeros(3, 2)
else:

    def dev(x):
        return x @ torch.zeros(4, 2)


print(dev(torch.zeros(1, 4)).shape)
