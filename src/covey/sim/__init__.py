"""A deterministic simulator: the same routers, or whole brokers, as in a live network, driven by a heap of arrivals."""

from covey.extras import require

require("broker", "covey.sim")

# Nothing of it can be imported without the extra.
from covey.sim.brokers import BrokerNetwork  # noqa: E402
from covey.sim.network import Network  # noqa: E402

__all__ = ["BrokerNetwork", "Network"]
