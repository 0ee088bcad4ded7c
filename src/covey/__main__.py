"""`python -m covey` is the `covey` program."""

from __future__ import annotations

from covey.cli import main

main()
