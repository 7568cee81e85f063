"""A place to measure in: the test's own database, and workers quick to give up a lease."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.bench import contestants
from ops.bench.contestants import Contestant
from ops.bench.processes import Arena


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Arena:
    return Arena(tmp_path, database_url, payload_bytes=200, concurrency=100)


@pytest.fixture
def us() -> Contestant:
    return contestants.ours()
