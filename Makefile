# make demo [FORMAT=delta] [ROWS=200000]   the retail warehouse of the 1997 paper, from nothing to a refreshed view
# make test                               format, lint, types, and the whole test-suite
# make verify [FORMAT=delta] [SEED=1..5]  the generated scripts of examples/retail.sql on random data

PYTHON ?= python3
FORMAT ?= parquet
ROWS ?= 200000
SEED ?= 1..5
VENV := .venv
READY := $(VENV)/.ready

.PHONY: demo test verify fast

demo: $(READY)
	$(VENV)/bin/deltafold demo --format $(FORMAT) --rows $(ROWS)

test: $(READY)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest --numprocesses 2 --dist loadfile

fast: $(READY)
	$(VENV)/bin/pytest -m "not spark" --numprocesses 2

verify: $(READY)
	$(VENV)/bin/deltafold verify examples/retail.sql --batches 20 --seed $(SEED) --format $(FORMAT)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("deltafold needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@command -v java >/dev/null || { echo "Java is not installed: Spark needs Java 17 or newer" >&2; exit 1; }
	@version=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1); \
	  [ "$${version:-0}" -ge 17 ] || { echo "Java $$version is too old: Spark needs Java 17 or newer" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable '.[dev]'
	@mkdir -p $(VENV)/types && ln -sfn ../.. $(VENV)/types/deltafold  # the root is the package, for mypy too
	@touch $(READY)
