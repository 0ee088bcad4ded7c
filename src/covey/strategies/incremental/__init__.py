"""Incremental filter aggregation: a covering filter that leaves is taken back only as far as it pays (`pruning`)."""
