"""The fleet queue: arq's key layout with its own atomic transitions (Lua), batches, leases and fairness.

`jobs.py` says what goes in and comes out, `queue.py` is a producer's and an operator's side, `worker.py` runs jobs.
"""
