#!/bin/sh
# redis-py 4.6 with flipper-client (which holds it below 5), beside the main environment, so that tests run on both.
set -eu
cd "$(dirname "$0")/.."
stamp=$(cksum < requirements-redis4.lock | tr -d ' \n')
[ "$(cat .cache/redis4/.installed 2>/dev/null || true)" = "$stamp" ] && exit 0
rm -rf .cache/redis4
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --target .cache/redis4 -r requirements-redis4.lock
echo "$stamp" > .cache/redis4/.installed
