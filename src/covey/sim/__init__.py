"""A deterministic simulator: the same routers as in a live network, driven by a heap of arrivals."""

from covey.extras import require

require("broker", "covey.sim")

from covey.sim.network import Network  # noqa: E402 (nothing of it can be imported without the extra)

__all__ = ["Network"]
