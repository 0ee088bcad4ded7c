"""Where Spark looks for Covey: it loads every module whose name begins with `pyspark_` and registers its DefaultSource.

So `spark.read.format("covey")` works wherever Covey is installed, without a word to Spark. Nothing else is here: the
source is `covey.pipeline.network`.
"""

from __future__ import annotations

from covey.pipeline.network.source import CoveySource as DefaultSource

__all__ = ["DefaultSource"]
