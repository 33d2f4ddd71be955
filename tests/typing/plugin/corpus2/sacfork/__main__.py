"""Command line: parse, patch the configuration, train twice."""

import argparse

from typedbatch import Batch

from sacfork import config
from sacfork.config import CFG, load, override
from sacfork.learner import Learner


def parse(argv: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser("sacfork")
    p.add_argument("--auto-alpha", action="store_true")
    p.add_argument("--critic", choices=["twin", "single"], default="twin")
    p.add_argument("--set", nargs="*", default=[])
    return p.parse_args(argv)


def report(rows: list[Batch], auto: bool) -> str:
    last = rows[-1]
    text = f"step {int(last.step)} critic {last.critic:.3f} actor {last.actor:.3f}"
    #! misspelt-read: text = f"step {int(last.step)} critic {last.critic:.3f} actor {last.actors:.3f}"
    if auto:
        text += f" alpha {last.alpha:.3f}"
    return text


def main(argv: list[str]) -> None:
    args = parse(argv)
    load()
    override(args.set)
    CFG.twin = args.critic == "twin"
    if args.auto_alpha:
        CFG.target_entropy = -1.0
    learner = Learner(auto_alpha=args.auto_alpha)
    rows = learner.run(int(CFG.steps))
    #! misspelt-read: rows = learner.run(int(CFG.n_steps))
    print(report(rows, args.auto_alpha))
    print("gamma", float(config.CFG.gamma), "tau", float(config.CFG.tau), "size", len(learner.memory))
    CFG.clear()


if __name__ == "__main__":
    main(["--auto-alpha", "--set", "steps=30", "tau=0.02"])
    main(["--critic", "single"])
