"""XROUTE: maximal filters with counts of whom they stand for (`counted`), or as plain sets (`sets`)."""
