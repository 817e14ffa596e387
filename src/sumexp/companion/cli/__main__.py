"""``python -m sumexp.companion.cli``."""

from sumexp.companion.cli import main

main()
