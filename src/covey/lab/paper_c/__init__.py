"""Paper C in the lab: congestion avoidance with incremental filter aggregation."""
