"""Work for benchmarks and experiments: random filters, events and documents, from an explicit generator."""
