"""The commands of the `covey` program, one file a group; `covey.cli` puts them together."""
