"""Fuzzing: inputs from outside, drawn from a seed, given to the code that reads them first.

python -m tests.fuzz frames --seconds 600 --seed 1

harness     what a target is, how an input is judged, how a failing one is made smaller
mutation    how valid inputs become inputs that may not be
broker      frames and handshakes, into a broker's core
filters     the three languages, as text and as bytes
files       plans, configurations, samples
spark       the options, schemas and filters of the data source
"""
