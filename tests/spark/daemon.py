"""Where Spark's Python workers come from in tests: a process that has imported what they need before they fork.

A worker that a test lets fail is not used again, and the next one would import NumPy, Numba and Arrow for seconds.
"""

from __future__ import annotations

import pyarrow  # noqa: F401
from pyspark import daemon

import covey.matching.relay
import covey.pipeline  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
