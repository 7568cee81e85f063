"""The schema as ordered SQL files, forward only. Line 1 of a file: what and why; line 2: `old workers keep running: yes|no`.

`NNNN_name.sql` run once each, in order, a transaction each; `routines/*.sql` (one function a file, `create or replace`)
run again whenever their text changed. `kbsync.db.migrate` runs them.
"""

from __future__ import annotations

from pathlib import Path

MIGRATIONS = Path(__file__).parent
ROUTINES = MIGRATIONS / "routines"
