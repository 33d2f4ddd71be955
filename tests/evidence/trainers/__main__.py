"""``python -m tests.evidence.trainers FOLDER [NAME ...]``: what audits say of the public trainers in a folder.

The checkouts are ``FOLDER/cleanrl`` and so on. A trainer that is not there is named with its address. The exit status
is the number of those that failed.
"""

import argparse
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

from tests.evidence.trainers.standins import stand_in

TRAINERS = {
    "cleanrl": ("vwxyzjn/cleanrl", "fe8d8a03"),
    "skrl": ("Toni-SM/skrl", "c29ced63"),
    "rsl_rl": ("leggedrobotics/rsl_rl", "c281c32e"),
    "verl": ("volcengine/verl", "b178a3cd"),
    "sb3": ("DLR-RM/stable-baselines3", "e05d2dbe"),
    "d3rlpy": ("takuseno/d3rlpy", "38c34b6f"),
    "trl": ("huggingface/trl", "f2cd5771"),
    "openrlhf": ("OpenRLHF/OpenRLHF", "3c3be623"),
    "open_instruct": ("allenai/open-instruct", "e6c3044a"),
    "prime_rl": ("PrimeIntellect-ai/prime-rl", "559b4477"),
}
"""Repositories, and the commits that the table in ``docs/audit.md`` is of."""


def run(name: str, folder: Path) -> bool:
    """Run the driver of a trainer in a process of its own, print what it says, and return False if it failed."""
    repository, expected = TRAINERS[name]
    checkout = folder / repository.split("/")[1]
    if not checkout.is_dir():
        print(f"{name}: no checkout; git clone https://github.com/{repository} {checkout}, at {expected}")
        return True
    git = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "of an unknown commit"
    print(f"{name} {commit}" if commit == expected else f"{name} {commit}, the table is of {expected}", flush=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.evidence.trainers", "--here", str(checkout), name]
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"  failed: {done.stderr.strip()[-2000:]}" if done.returncode else done.stdout.rstrip(), flush=True)
    return not done.returncode


def run_here(name: str, checkout: str) -> None:
    """Print the findings and notes of each audit of a trainer, and nothing that the trainer prints."""
    stand_in(name)
    sys.path[:0] = [checkout, f"{checkout}/src"]
    try:
        with redirect_stdout(sys.stderr):
            reports = [*import_module(f"tests.evidence.trainers.{name}").reports()]
    except ModuleNotFoundError as error:
        print(f"  not run: {error}")
        return
    for title, report in reports:
        print(f"  {title}: {len(report.findings)} findings, {len(report.notes)} notes")
        entries = [f"finding {entry}" for entry in report.findings] + [f"note {entry}" for entry in report.notes]
        print("".join(f"    {entry}\n" for entry in entries), end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.trainers")
    parser.add_argument("--here", action="store_true", help="FOLDER is a checkout; run its driver in this process")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the checkouts")
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(TRAINERS))
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in TRAINERS]:
        parser.error(f"there is no driver of {', '.join(unknown)}")
    if given.here:
        raise SystemExit(run_here(*given.names, str(given.folder)))
    raise SystemExit(sum(not run(name, given.folder.resolve()) for name in given.names or TRAINERS))
