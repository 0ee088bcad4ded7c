"""Merging: a neighbour is told one filter for several, exactly (`perfect`) or within a budget (`imperfect`)."""
