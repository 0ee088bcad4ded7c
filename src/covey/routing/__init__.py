"""One broker's routing as a state machine: messages in, outputs out, no I/O, no clock, no randomness."""
