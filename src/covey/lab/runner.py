"""Compute the cells that are missing, each as a Spark task of its own, and keep each as soon as it is done.

Every cell is a Spark job with one task. Jobs are handed to Spark side by side, long cells first, and what a task
computes travels back to this process, which alone writes. So it makes no difference where the workers are; an
interrupted run goes on where it stopped; and a cell that fails, even one that takes its worker with it, fails alone.
Spark takes about a tenth of a second for a job, which is little beside most cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from covey.lab import data
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.outcome import Outcome, compute, compute_with, decode, failure
from covey.lab.store import Store
from covey.pipeline.session import NoJavaError, check_master, master_of, running, session, slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "here"  # instead of a Spark master: compute in this process


class Task(NamedTuple):
    """A cell to compute."""

    experiment: Experiment
    cell: Cell


class Step(NamedTuple):
    """How far a run is: `done` of `total` cells, the last one with this outcome; None before the first."""

    done: int
    total: int
    outcome: Outcome | None


Progress = Callable[[Step], None]


def tasks(store: Store, experiments: Iterable[Experiment], scale: Scale) -> list[Task]:
    """Return the missing cells of the experiments, those with the greatest effort first."""
    found = [
        Task(experiment, cell) for experiment in experiments for cell in store.missing(experiment, scale)
    ]
    return sorted(found, key=lambda task: -task.experiment.effort(task.cell))


def run(
    store: Store, todo: Sequence[Task], master: str | None, tell: Progress = lambda step: None
) -> list[Outcome]:
    """Compute the cells, keep each outcome when it is there, and return those that failed.

    `master` is where Spark runs (`pipeline.session`), or HERE, without Spark.
    """
    if master is not None and master != HERE:
        check_master(master, ", or here, without Spark")
    if not todo:
        return []
    tell(Step(0, len(todo), None))
    failed: list[Outcome] = []
    outcomes = compute_here(todo) if master == HERE else compute_on_spark(todo, master, store.log())
    for done, outcome in enumerate(outcomes, 1):
        store.save(outcome)
        if outcome.error:
            failed.append(outcome)
        tell(Step(done, len(todo), outcome))
    return failed


def compute_here(todo: Iterable[Task]) -> Iterator[Outcome]:
    """Compute the cells in this process, one after the other."""
    for task in todo:
        yield compute(task.experiment, task.cell)


def compute_on_spark(todo: Sequence[Task], master: str | None, log: Path) -> Iterator[Outcome]:
    """Compute the cells on Spark; yield outcomes in the order in which they are done."""
    is_ours = running() is None
    try:
        spark = session(master, log, "covey lab")
    except NoJavaError:
        raise NoJavaError("; or --master here, without Spark") from None
    pool = ThreadPoolExecutor(slots(master_of(spark)), thread_name_prefix="lab")
    try:
        waiting: set[Future[Outcome]] = {pool.submit(compute_as_job, spark, task) for task in todo}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if is_ours:
            # Jobs that are still under way, after an interruption, end with the session.
            spark.stop()


def compute_as_job(spark: SparkSession, task: Task) -> Outcome:
    """Compute one cell as a Spark job with one task, and wait for it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    experiment, cell = task
    files = data.given(experiment.inputs)
    function = task_function(experiment.name, experiment.version, experiment.run, dict(cell), files)
    try:
        found = spark.range(0, 1, 1, 1).mapInArrow(function, "outcome string").collect()
    except (Py4JError, PySparkException, OSError) as error:
        # The function itself catches all that can be caught: here the worker ended, or it could not be given the cell.
        return failure(experiment, cell, f"its Spark task failed: {reason(error)}")
    return decode(found[0]["outcome"])


def task_function(
    name: str, version: int, run_cell: Callable[[Cell], list[Row]], cell: Cell, files: Mapping[str, bytes]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what the worker calls. It holds the cell, its data files, and the name of the experiment's function."""

    def compute_cell(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        data.supply(files)
        for _ in batches:
            outcome = compute_with(name, version, run_cell, cell)
            yield pyarrow.RecordBatch.from_pydict({"outcome": [outcome.encode()]})

    return compute_cell


def reason(error: Exception) -> str:
    """Return the line of Spark's long report that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "crashed" in line]
    return (telling or lines or [type(error).__name__])[0]
