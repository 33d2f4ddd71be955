"""Entry point of ``python -m typedbatch.cli``, which runs the command ``typedbatch``."""

from typedbatch.cli import main

main()
