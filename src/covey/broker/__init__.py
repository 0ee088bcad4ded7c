"""The broker as a daemon: the router of `covey.routing` behind real sockets."""
