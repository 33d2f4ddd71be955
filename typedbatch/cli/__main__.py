"""Entry point of ``python -m typedbatch.cli``, which runs the command ``typedbatch``."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # The current folder, which the command itself does not import from.

from typedbatch.cli import main

main()
