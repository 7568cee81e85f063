# `make demo` and `make test` are the two commands; both set up everything they need.
.DEFAULT_GOAL := help
.PHONY: help demo test check spec mutants scale bench soak chaos lock setup setup-dev

PY := .venv/bin/python
ISSUE ?=
SOURCE ?=
KEEP ?=
ONLY ?=
QUICK ?=
MINUTES ?=

help:        ## what there is
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup:
	@ops/setup.sh requirements.lock
setup-dev:
	@ops/setup.sh requirements-dev.lock

demo: setup  ## sync a real site and a real folder, then search them (SOURCE=url or folder, KEEP=1 leaves it running)
	@.venv/bin/kbsync demo $(if $(SOURCE),--source "$(SOURCE)") $(if $(KEEP),--keep)

test: setup-dev check  ## format, lint, types, import contracts, then every test
	@ops/redis4.sh
	.venv/bin/pytest -n 2 --dist loadfile tests
	PYTHONPATH=.cache/redis4 .venv/bin/pytest -n 2 --dist loadfile -p no:cacheprovider tests/queue tests/flags
	@echo "All green. Spec lines and their proofs: make spec"

check: setup-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

spec: setup-dev  ## spec lines without a proof (ISSUE=n for one issue)
	@$(PY) -m tests.spec_report $(if $(ISSUE),--issue $(ISSUE))

mutants: setup-dev  ## remove guards one by one and see their tests fail
	@$(PY) -m tests.mutations

scale: setup-dev  ## every provider's suite with 2,000 items to sync and 10,000 to list
	KBSYNC_FULL_SCALE=1 .venv/bin/pytest -n 2 --dist loadfile tests/providers -k "vanish or long_listing"

bench: setup-dev  ## every measured target against peers, into ops/bench/RESULTS.md (ONLY=PF-01,PF-03 QUICK=1)
	@$(PY) -m ops.bench $(if $(ONLY),--only "$(ONLY)") $(if $(QUICK),--quick)

soak: setup-dev  ## half load for half an hour, then see whether anything grew (MINUTES=n)
	@$(PY) -m ops.bench --only RB-05 --minutes $(or $(MINUTES),30)

chaos: setup-dev  ## kill random processes of a working stack, then see that nothing was lost (SEED=n KILLS=n)
	@$(PY) -m ops.chaos --seed $(or $(SEED),1) --kills $(or $(KILLS),30)

lock:        ## rewrite the lock files (needs uv)
	@ops/lock.sh
