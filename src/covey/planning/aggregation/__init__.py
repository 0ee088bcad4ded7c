"""Which subscriptions to forward as one, and where: the least waste for a required saving.

Paper W: N. Wang and J. Wu, *Minimizing the Subscription Aggregation Cost in the Content-based Pub/Sub System*. Where
the paper leaves the model open or its statements do not hold, `model` says what is taken instead. Begin at
`registry`.
"""
