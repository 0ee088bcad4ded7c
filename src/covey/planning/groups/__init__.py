"""Groups of subscriptions that share a dissemination tree, chosen in several ways."""
