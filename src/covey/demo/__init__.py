"""`covey demo`: an overlay of real brokers at work, planned anew while events flow, and every delivery checked.

scene      who is where, who wants what, and what is published: all from a seed
overlay    the brokers as processes, and their admin pages (admin)
traffic    clients, feeds, and the record of what everybody got
oracle     who should have got what, filter by filter, in a process of its own; crossings: which links that takes
burst      a covering subscription leaves, under two strategies
planning   samples to a plan, by a process of its own that has Spark (planner); the plan goes in
acts, run  one after the other, with their times; findings: what came of it
summary, report, pictures (drawing, curves), examples   the same for people
"""
