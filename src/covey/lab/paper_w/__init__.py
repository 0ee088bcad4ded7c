"""Paper W: what aggregating subscriptions costs."""
