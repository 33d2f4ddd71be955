"""Fields of a shipped stage, which are declared by aliases."""

from torch import Tensor
from typedbatch.posttraining import Rollouts


def masked(batch: Rollouts) -> Tensor:
    return batch.prompt_ids * batch.response_mask  # WRONG: prompts are of another width


def main() -> None:
    print(masked.__name__)


if __name__ == "__main__":
    main()
