"""The client library: `covey.connect` and what it gives."""
