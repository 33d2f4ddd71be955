"""A model of random weights and its tokenizer, made in code: nothing is downloaded."""

# ruff: noqa: E402  # transformers reads the environment when it is imported
import os
import warnings

warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # TRL 1.16 uses names of 4.x
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TRL_EXPERIMENTAL_SILENCE="1")

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 13
PAD, END, UNKNOWN = WORDS, WORDS + 1, WORDS + 2


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {f"w{i}": i for i in range(WORDS)} | {"<pad>": PAD, "<end>": END, "<unk>": UNKNOWN}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>", unk_token="<unk>")


def model(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=WORDS + 3, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, pad_token_id=PAD, eos_token_id=END, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)
