from dataclasses import dataclass

@dataclass
class WorldConfig:
    embed: int = 12
    stoch: int = 6
    deter: int = 10
    act_dim: int = 2
