PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/quick

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test bench env lint types tests clean

help:
	@echo "make demo   run the default suite on the embedded Cora and write its report"
	@echo "make test   lint, types and tests"
	@echo "make bench  time ours beside PyG; DATASETS='amazon-photo coauthor-cs' for others than Cora"
	@echo "make clean  remove the environment and every cache (runs are kept)"

demo: $(STAMP)
	$(BIN)/fgai-bench run --suite quick --out $(RUN)
	$(BIN)/fgai-bench report $(RUN)
	@echo "The records and their report lie in $(RUN)"

test: lint types tests

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(DATASETS)

env: $(STAMP)

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,ray,page]"
	touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal

clean:
	rm -rf $(VENV) .tox .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
