from dataclasses import dataclass


@dataclass
class Config:
    vocab: int = 15
    dim: int = 8
    prompts: int = 3
    group: int = 4
    prompt_len: int = 5
    response_len: int = 6
