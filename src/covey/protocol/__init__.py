"""What brokers and clients say to each other, as bytes; docs/wire.md is its specification."""
