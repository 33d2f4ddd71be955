"""Stand-ins for what a trainer imports, and its update does not need."""

import sys
from abc import ABCMeta
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

REPLACED = {
    "cleanrl": "tyro torch.utils.tensorboard",
    "skrl": "tensorboard tqdm wandb",
    "rsl_rl": "git neptune onnx onnxscript wandb torch.utils.tensorboard",
    "verl": "accelerate codetiming hydra omegaconf peft ray torchdata transformers vllm",
    "sb3": "cloudpickle matplotlib pandas tensorboard",
    "d3rlpy": "click colorama dataclasses_json gym h5py minari sklearn structlog tqdm "
    "d3rlpy.datasets d3rlpy.envs d3rlpy.healthcheck",
    "trl": "accelerate datasets huggingface_hub mlflow pandas psutil transformers "
    "trl.trainer.dpo_config trl.trainer.grpo_config",
    "openrlhf": "accelerate aiohttp datasets deepspeed fastapi peft pylatexenc ray torchdata tqdm transformers uvicorn "
    "vllm openrlhf.models.ring_attn_utils",
    "open_instruct": "absl accelerate aiohttp beaker datasets deepspeed dill docker huggingface_hub langdetect litellm "
    "nltk olmo_core openai pandas peft psutil ray rich transformers vllm wandb open_instruct.data_loader "
    "open_instruct.environments open_instruct.ground_truth_utils open_instruct.olmo_core_utils",
    "prime_rl": "verifiers prime_rl.configs prime_rl.transports prime_rl.utils",
}
"""Packages that are not installed, and modules of the trainer itself, which are replaced for a driver."""


def answer(name: str) -> Any:
    """Return what a stand-in has by a name: a class, or for a question such as ``is_peft_available`` the answer no."""
    if name.startswith("__"):
        raise AttributeError(name)
    return (lambda *_, **__: False) if name.startswith("is_") else Kind(name, (Thing,), {})


class Kind(ABCMeta):
    """The class of the classes of stand-ins, which have every attribute, and decorate without a change."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return answer(name)


class Thing(metaclass=Kind):
    """Anything that is imported from a stand-in: a base class, a decorator with or without arguments, no entries."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if args else self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)


class StandIn(ModuleType):
    """A module that has every name."""

    __path__: Sequence[str] = ()
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        self.__dict__[name] = answer(name)
        return self.__dict__[name]


class Finder(MetaPathFinder, Loader):
    """Finder of modules that are replaced, with all that is below them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        is_replaced = any(f"{fullname}.".startswith(f"{name}.") for name in self.names)
        return ModuleSpec(fullname, self, is_package=True) if is_replaced else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def stand_in(driver: str) -> None:
    """Replace what the trainer of a driver imports and its update does not need."""
    names = [name for name in REPLACED[driver].split() if "." in name or find_spec(name) is None]
    sys.meta_path.insert(0, Finder(names))
