"""The coordinator: a network that plans itself. `coordinator` has the loop; docs/coordinator.md says how to run it."""
