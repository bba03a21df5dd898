# Two commands do everything on a new machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Run with a plain environment of our own: no user site, no inherited PYTHONPATH.
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH

.PHONY: quickstart test check format install install-dev clean

quickstart: install
	$(BIN)/tuner run studies/quickstart.toml --device cpu

test: install-dev
	$(BIN)/pytest -n 2 --dist loadgroup

check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/typos tuner kernels studies alembic docs benchmarks README.md CHANGELOG.md # tests misspell on purpose

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit("tuner needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt -e '.[triton]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[triton,amd,nvidia,parquet,images,postgres,service,dashboard,test,check]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
