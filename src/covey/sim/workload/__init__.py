"""Workloads of simulated runs: scripts of timed actions, and a registry of them by name."""

from covey.sim.workload.action import Action, Op
from covey.sim.workload.registry import WORKLOADS, build
from covey.sim.workload.script import Script

__all__ = ["WORKLOADS", "Action", "Op", "Script", "build"]
