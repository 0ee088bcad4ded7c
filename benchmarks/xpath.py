"""The same as `covey bench xpath`, with sizes as arguments."""

import sys

from covey.cli import run

sizes = [part for size in sys.argv[1:] for part in ("--size", size)]
sys.exit(run(["bench", "xpath", *sizes]))
