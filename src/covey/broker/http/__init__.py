"""What a broker serves over HTTP: its inside, for those who run it, and events, for any language."""
