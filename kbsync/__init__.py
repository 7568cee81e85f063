"""kbsync keeps a company's knowledge in sync. ARCHITECTURE.md draws the house; `kbsync.domain` is its dictionary."""

__version__ = "0.1.0"
