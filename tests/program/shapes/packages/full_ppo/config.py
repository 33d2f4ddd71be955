from dataclasses import dataclass

@dataclass
class Config:
    obs_dim: int = 6
    n_act: int = 3
    hidden: int = 16
    steps: int = 12
    gamma: float = 0.99
    clip: float = 0.2
