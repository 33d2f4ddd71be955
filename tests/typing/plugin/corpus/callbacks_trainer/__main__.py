"""Run with all hooks."""

from callbacks_trainer.hooks import Curiosity, IntrinsicLogger, RewardScaling
from callbacks_trainer.trainer import Trainer


def main() -> None:
    logger = IntrinsicLogger()
    trainer = Trainer([RewardScaling(), Curiosity(0.1), logger])
    trainer.fit(4)
    print("\n".join(logger.lines))
    print(float(trainer.batch.rew_int.max()) > 0)
    #! misspelt-read: print(float(trainer.batch.rew_intrinsic.max()) > 0)


if __name__ == "__main__":
    main()
