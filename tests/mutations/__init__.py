"""Guards are seen to bite: each mutation takes one guard out of the code, and the tests it names must then fail.

    python -m tests.mutations [--only NAME] [--list]

Prints `killed` or `SURVIVED` a mutation; exits 1 when one survives, when its text is no longer found exactly once, or
when its tests can't run at all. Works on a copy of the tree, so nothing here is changed.

To add one, append to any `tests/mutations/*.toml` (one file a room):

    [[mutation]]
    name = "finish-without-token"             # what is taken away
    file = "kbsync/queue/lua/exchange.lua"
    find = "text that stands there exactly once"
    replace = "what stands there instead"     # may be empty
    tests = ["tests/queue/test_leases.py::test_a_finish_with_a_stale_token_does_nothing"]
"""
