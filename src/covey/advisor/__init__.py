"""The advisor: a sample of somebody's own traffic, replayed in the simulator under every strategy and plan."""
