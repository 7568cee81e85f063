"""flipper-client holds redis-py below 5, so its tests belong to the environment that ops/redis4.sh makes."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("flipper") else ["test_flipper_client.py"]
