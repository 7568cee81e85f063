"""`kbsync`: the command line. One module a group of verbs; heavy imports live inside the verbs, so that --help is quick.

Exit codes: 0 done, 1 it failed or found something, 2 wrong usage or settings, 3 a server can't be reached.
"""

from __future__ import annotations

import io
import sys

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3


def main() -> None:
    """Runs the command line; a known error is one line on standard error, never a traceback."""
    from kbsync.domain.errors import KbsyncError, ServerUnavailable, SettingsError
    from ops.cli.app import app

    # A supervisor or a pipe sees each line when it is printed, not when a buffer is full.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        app()
    except SettingsError as error:
        _fail(str(error), EXIT_USAGE)
    except ServerUnavailable as error:
        _fail(str(error), EXIT_UNAVAILABLE)
    except KbsyncError as error:
        _fail(str(error), EXIT_FAILED)
    except BrokenPipeError:
        sys.exit(0)


def _fail(message: str, code: int) -> None:
    print(f"kbsync: {message}", file=sys.stderr)
    sys.exit(code)
