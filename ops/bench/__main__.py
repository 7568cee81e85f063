"""`make bench` and `make soak`: `python -m ops.bench [--only PF-01,PF-03] [--quick] [--json]`. As `kbsync bench`."""

from __future__ import annotations

import argparse
import sys

from kbsync.domain.errors import SettingsError
from ops.bench.run import run_bench


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="IDS", help="spec ids, separated by commas; else all but the soak"
    )
    parser.add_argument("--quick", action="store_true", help="small counts, one round, nothing kept")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds of each side")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the soak lasts")
    wanted = parser.parse_args()
    try:
        return run_bench(
            wanted.only, quick=wanted.quick, as_json=wanted.json, rounds=wanted.rounds, minutes=wanted.minutes
        )
    except SettingsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
