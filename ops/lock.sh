#!/bin/sh
# Rewrites the hash-locked requirement files from pyproject.toml. Needs uv; the result names no address.
set -eu
cd "$(dirname "$0")/.."
build=$(mktemp) && printf 'hatchling\neditables\n' > "$build"
old_redis=$(mktemp) && printf 'flipper-client\nredis>=4.6,<5\n' > "$old_redis"
compile() { uv pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet; }
compile pyproject.toml "$build" -o requirements.lock
compile pyproject.toml --extra dev -c requirements.lock -o requirements-dev.lock
compile "$old_redis" -o requirements-redis4.lock
rm -f "$build" "$old_redis"
