"""All targets, by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz import broker, files, filters, spark
from tests.fuzz.harness import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target for target in (*broker.TARGETS, *filters.TARGETS, *files.TARGETS, *spark.TARGETS)
}
