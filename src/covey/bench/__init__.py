"""Benchmarks: the same work through the slow obvious way and ours, in one run, with equal answers.

Figures are ratios first: machines differ and are shared. Times are the thread's own CPU time, best of several rounds,
except where several processes work. `parts` lists the parts and their sizes; each has a module with `compare`, which
returns values of `comparison`; `growth`, `tables`, `picture` and `document` are made from those alone.
"""
