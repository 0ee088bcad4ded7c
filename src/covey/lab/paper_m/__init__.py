"""A. Majumder, N. Shrivastava, R. Rastogi and A. Srinivasan, *Scalable Content-Based Routing in Pub/Sub Systems*."""
