"""Pictures of results: small multiples over time, one line for each result.

Tables, control messages, queues and delays; where there is one result only, a second line for what belongs beside it.
matplotlib is loaded when a picture is drawn, and draws into a file without a screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from covey.errors import ConfigError
from covey.sim.metrics import Sample
from covey.sim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg", ".pdf")

Value = Callable[[Sample], float]

# Title, what is drawn, and what is drawn beside it in the picture of one result.
PANELS: tuple[tuple[str, tuple[str, Value], tuple[str, Value]], ...] = (
    (
        "Routing tables: entries at all brokers",
        ("remote", lambda sample: sample.remote_entries),
        ("local", lambda sample: sample.local_entries),
    ),
    (
        "Control messages since the beginning",
        ("control messages", lambda sample: sample.control_messages),
        ("triggered subscriptions", lambda sample: sample.triggered),
    ),
    (
        "Longest queue since the point before",
        ("any broker", lambda sample: sample.queue_peak),
        ("core brokers", lambda sample: sample.core_queue_peak),
    ),
    (
        "Delay of deliveries since the point before (99%), s",
        ("99%", lambda sample: sample.delays.p99_s if sample.delays.deliveries else math.nan),
        ("median", lambda sample: sample.delays.p50_s if sample.delays.deliveries else math.nan),
    ),
)


def check_plot_file(file: str) -> Path:
    """Return the path of a picture; ConfigError if none can be written there. To be called before a long run."""
    path = Path(file)
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"--plot {file!r:.80}: expected a file name that ends with {', '.join(SUFFIXES)}")
    if not path.parent.is_dir() or path.is_dir():
        raise ConfigError(f"--plot {file!r:.80}: expected a file in a directory that is there")
    return path


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw the results, which are of one scenario, into a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = results[0]
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    names = ", ".join(dict.fromkeys(result.strategy for result in results))
    # Between dollar signs there would be mathematics, and a title is anyone's text.
    title = f"{first.title}\n{first.scenario} · {names} · seed {first.seed}".replace("$", r"\$")
    figure.suptitle(title, fontsize=11)
    grid = figure.subplots(2, 2, sharex=True)
    for axes, panel in zip(grid.flat, PANELS, strict=True):
        _draw_panel(axes, panel, results)
    for axes in grid[1]:
        axes.set_xlabel("simulated s", fontsize=8)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r:.80}: {error.strerror or error}") from None


def _draw_panel(
    axes: Axes, panel: tuple[str, tuple[str, Value], tuple[str, Value]], results: Sequence[Result]
) -> None:
    title, main, beside = panel
    axes.set_title(title, fontsize=9, loc="left")
    if len(results) == 1:
        lines = [(results[0], *main), (results[0], *beside)]
    else:
        lines = [(result, result.strategy, main[1]) for result in results]
    for result, label, value in lines:
        points = [(sample.at_s, value(sample)) for sample in result.samples]
        axes.plot(*zip(*points, strict=True), label=label, marker=".", markersize=3)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
