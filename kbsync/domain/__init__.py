"""The pure ground floor: words, ids, states, outcomes, errors and decisions.

Nothing here awaits, reads a clock or knows a server. Time and randomness are arguments.
"""
