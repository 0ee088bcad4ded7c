"""What Spark does while Java notes which classes it loads (`java_archive`): some of all that stages ask of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covey.errors import ConfigError
from covey.pipeline.java_archive import QUIET, make
from covey.pipeline.session import JAVA_OPTIONS, java_home, session, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow
    from pyspark.sql import SparkSession


def warm_up() -> None:
    """Make the archive of the Java that Spark would run on, unless it is there."""
    try:
        home = java_home()
    except ConfigError:  # who has no Java finds out when Spark is asked for
        return
    make(home)


def main(file: str) -> None:
    """Start Spark, let it do what a plan needs of it, end it, and wait until Java has written the file."""
    from pyspark import SparkContext

    options = settings("local[1]")[JAVA_OPTIONS]
    conf = {JAVA_OPTIONS: f"{options} -XX:ArchiveClassesAtExit={file} {QUIET}"}
    spark = session("local[1]", Path("spark.log").absolute(), conf=conf)
    exercise(spark, Path("tables").absolute())
    gateway = SparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def exercise(spark: SparkSession, directory: Path) -> None:
    """Read, write, shuffle, join, and go through Python, as the stages do."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name
    from pyspark.sql.window import Window

    for compiled in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", compiled)
        spark.conf.set("spark.sql.codegen.wholeStage", compiled)
        rows = spark.range(100).select("id", (F.col("id") % 7).cast("string").alias("name"))
        rows.write.mode("overwrite").parquet(str(directory))
        read = spark.read.parquet(str(directory))
        place = F.row_number().over(Window.partitionBy("name").orderBy("id"))
        marked = read.mapInArrow(_same, "id long, name string").withColumn("place", place)
        counted = marked.groupBy("name").agg(F.count(F.lit(1)).alias("rows"), F.sum("id"))
        joined = marked.join(F.broadcast(counted), "name").unionByName(marked, allowMissingColumns=True)
        joined.repartition(2).sortWithinPartitions("id").collect()
        pairs = rows.groupBy("name").cogroup(rows.groupBy("name"))
        pairs.applyInArrow(_left, "id long, name string").orderBy("id").limit(3).collect()


def _same(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    yield from batches


def _left(left: pyarrow.Table, right: pyarrow.Table) -> pyarrow.Table:
    return left


if __name__ == "__main__":
    main(*sys.argv[1:])
