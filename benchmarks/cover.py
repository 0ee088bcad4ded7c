"""The same as `covey bench cover`, with sizes as arguments."""

import sys

from covey.cli import run

sizes = [part for size in sys.argv[1:] for part in ("--size", size)]
sys.exit(run(["bench", "cover", *sizes]))
