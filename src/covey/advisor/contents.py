"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from covey.advisor.advice import Advice
from covey.advisor.forecast import Comparison
from covey.advisor.summary import Summary
from covey.planning.plan import Plan


@dataclass(frozen=True)
class Contents:
    """What a report tells of."""

    plan: Plan
    summary: Summary
    hosted: Mapping[str, int]
    quarantined: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    explain: str = ""
    advice: Advice | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    merged: Comparison | None = None
