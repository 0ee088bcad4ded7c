"""Plans: which subscriptions share a dissemination tree, and what the trees look like."""
