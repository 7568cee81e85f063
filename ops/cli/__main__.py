"""`python -m ops.cli` is `kbsync`."""

from ops.cli import main

main()
