#!/bin/sh
# Makes .venv hold exactly what the lock file names, and the project itself (editable).
# Usage: ops/setup.sh requirements.lock|requirements-dev.lock
# Runs again only when a lock file or pyproject.toml changed. uv is used when it is there, pip when not.
set -eu
cd "$(dirname "$0")/.."
lock=${1:-requirements.lock}
python=${PYTHON:-python3}

"$python" - <<'PY' || { echo "kbsync needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

stamp() { cat pyproject.toml "$1" | cksum | tr -d ' \n'; }
marker=.venv/.installed
installed=$(cat "$marker" 2>/dev/null || true)
# The development lock holds everything of the runtime lock, so it satisfies both.
if [ "$installed" = "requirements-dev.lock $(stamp requirements-dev.lock)" ] || [ "$installed" = "$lock $(stamp "$lock")" ]; then
  exit 0
fi

[ -x .venv/bin/python ] || { echo "setup: making .venv"; "$python" -m venv .venv; }
rm -f "$marker"
echo "setup: installing $lock (first time: about a minute)"
with_uv() {
  command -v uv >/dev/null 2>&1 || return 1
  uv pip install --quiet --python .venv/bin/python --require-hashes -r "$lock" || return 1
}
with_uv || .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
echo "$lock $(stamp "$lock")" > "$marker"
