"""Benchmarks: the same work through the slow obvious way and ours, in one process, with equal answers.

Figures are ratios first: machines differ and are shared. Times are the thread's own CPU time, best of several rounds.
"""
