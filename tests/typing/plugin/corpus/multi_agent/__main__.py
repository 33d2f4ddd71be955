"""Play 40 episodes."""

import numpy as np

from multi_agent.loop import train
from typedbatch import Batch


def main() -> None:
    scores = train(40)
    table = Batch({name: np.array(values) for name, values in scores.items()})
    summary = Batch(first=table[:10].to_dict(), last=table[-10:].to_dict())
    for name in scores:
        print(f"{name}: {summary.first[name].mean():.3f} -> {summary.last[name].mean():.3f}")
        #! misspelt-read: print(f"{name}: {summary.fist[name].mean():.3f} -> {summary.last[name].mean():.3f}")


if __name__ == "__main__":
    main()
