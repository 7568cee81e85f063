"""Drivers of the peers: one small script each, run by the peer's own interpreter in its own environment."""
