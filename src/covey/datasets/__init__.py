"""Example inputs of any size: topology, subscriptions, advertisements, events and deliveries as Parquet tables."""
