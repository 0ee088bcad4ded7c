"""The process that Spark's Python workers are forked from, where Covey starts Spark on this machine.

By itself, each worker would import Arrow, Numba and the stages, which takes most of a second of processor time; forked
from this process, it has them. `session` names this module to Spark unless somebody has named another.
"""

from __future__ import annotations

import pyarrow.compute  # noqa: F401
from pyspark import daemon

import covey.matching.relay
import covey.pipeline.plan  # noqa: F401 - with it, the stages before it

if __name__ == "__main__":
    daemon.manager()
