"""``python -m typedbatch.cli``, which is the command ``typedbatch``."""

from typedbatch.cli import main

main()
