"""Spark talks to the network itself: the data source "covey" reads live events and publishes rows.

source      what Spark finds: which reader or writer for what
options     every option with its meaning, judged once; how they become a client
columns     events as Arrow batches: the default columns, or a column for each attribute
pushdown    Spark's filters as a filter of ours, exactly
batch       a bounded read                 runs in an executor
intake      what a stream has received     runs in one process on the driver, as long as its query
stream      a stream over it
rows, sink  rows as events, and publishing them
"""
