"""The three kinds of process, each until SIGTERM or SIGINT: API, workers, scheduler (OP-02, OP-11).

One module each, so that a worker at rest holds no dashboard (PF-14).
"""
