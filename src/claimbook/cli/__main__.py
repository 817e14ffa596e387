"""``python -m claimbook.cli``."""

from claimbook.cli import main

main()
