"""A linear program built row by row, and solved by HiGHS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from covey.errors import PlanError
from covey.matching.jit import Floats

Terms = list[tuple[int, float]]


class Program:
    """Minimise a sum of variables between 0 and 1, some of them whole, subject to rows `terms >= low`."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._whole: list[int] = []
        self._rows: list[Terms] = []
        self._lows: list[float] = []

    def variable(self, cost: float = 0.0, *, whole: bool = False) -> int:
        self._costs.append(cost)
        self._whole.append(int(whole))
        return len(self._costs) - 1

    def require(self, terms: Terms, low: float) -> None:
        """Demand that the sum of coefficient · variable is at least `low`."""
        self._rows.append(terms)
        self._lows.append(low)

    def solve(self, time_limit_s: float) -> tuple[Floats, float]:
        """Return the values found and a lower bound of the objective; the same if it was solved to the end."""
        entries = [(row, column, value) for row, terms in enumerate(self._rows) for column, value in terms]
        rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
        matrix = csr_array((values, (rows, columns)), shape=(len(self._rows), len(self._costs)))
        result = milp(
            np.array(self._costs),
            integrality=np.array(self._whole),
            bounds=Bounds(0.0, 1.0),
            constraints=LinearConstraint(matrix, np.array(self._lows), np.inf),
            options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
        )
        if result.x is None:
            raise PlanError(f"no plan within {time_limit_s:g} s: {result.message}")
        return np.asarray(result.x, float), max(0.0, float(result.mip_dual_bound))
