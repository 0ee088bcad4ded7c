"""The lab: the figures and claims of the papers, computed by our own code and laid beside what the papers report."""
