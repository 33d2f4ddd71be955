"""Functions for rows of torch distributions, with the names of Tianshou's; they need the extra ``torch``."""

from typedbatch._core.distributions import dist_to_atleast_2d as dist_to_atleast_2d
from typedbatch._core.distributions import get_len_of_dist as get_len_of_dist
from typedbatch._core.distributions import get_sliced_dist as get_sliced_dist
