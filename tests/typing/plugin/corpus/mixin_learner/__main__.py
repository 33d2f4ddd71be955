"""Train both for a few epochs."""

from mixin_learner.learners import Reinforce, WeightedBaseline


def main() -> None:
    plain, weighted = Reinforce(), WeightedBaseline()
    for _ in range(3):
        print(f"{plain.epoch(40):.4f} {weighted.epoch(40):.4f} {weighted.summary()['ess']:.2f}")


if __name__ == "__main__":
    main()
