"""A deterministic simulator: the same routers as in a live network, driven by a heap of arrivals."""

from covey.sim.network import Network

__all__ = ["Network"]
