"""Confirmed events and durable subscriptions: what a broker keeps on disk until it is delivered."""
