PYTHON ?= python3
VENV ?= .venv
# Which build of torch to install on Linux: `cpu`, `cu126`, ...; empty takes the registry's own, which is built for CUDA.
BACKEND ?=
# The version that `make constraints` resolves everything else around.
TORCH ?= 2.13.0
RUN ?= runs/quick
RESULTS ?= results

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --disable-pip-version-check
TORCH_PINS = $(shell grep -E '^torch(vision)?==' constraints.txt)

.PHONY: help demo test slow bench tables tables-of-the-study tables-beside-it reproduce docs env constraints lint types tests clean

help:
	@echo "make demo       run the default suite on the embedded Cora and write its report"
	@echo "make test       lint, types and tests"
	@echo "make slow       tests that take minutes, which make test leaves out"
	@echo "make bench      time ours beside PyG; DATASETS='amazon-photo coauthor-cs' for others than Cora"
	@echo "make tables     regenerate everything under results/ and the numbers of the pages from the committed records; nothing is run"
	@echo "make reproduce  say which commands make the committed records anew, on which card and in how many minutes"
	@echo "make docs       build the documentation into build/site; a warning or a broken link is an error"
	@echo "make env        build the environment in .venv; BACKEND=cpu for a torch without CUDA, PYTHON=python3.12 for another Python"
	@echo "make constraints  choose the newest versions that work together on every supported Python and platform"
	@echo "make clean      remove the environment and every cache (runs are kept)"

demo: $(STAMP)
	$(BIN)/fgai-bench run --suite quick --out $(RUN)
	$(BIN)/fgai-bench report $(RUN)
	@echo "The records and their report lie in $(RUN)"

test: lint types tests

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(DATASETS)

tables: $(STAMP)
	$(MAKE) --no-print-directory -j 2 tables-of-the-study tables-beside-it
	if test $(RESULTS) = results; then $(BIN)/python -m docs.fill; fi

# Everything is written beside what is there and then takes its place, so records that have changed stop it before.
tables-of-the-study: $(STAMP)
	rm -rf $(RESULTS)/.new
	$(BIN)/fgai-bench report $(RESULTS)/records --out $(RESULTS)/.new --format latex,markdown,csv,png,html > /dev/null
	rm -rf $(RESULTS)/tables $(RESULTS)/figures $(RESULTS)/claims* $(RESULTS)/comparison*
	cp -R $(RESULTS)/.new/. $(RESULTS)
	rm -rf $(RESULTS)/.new
	@echo "All of it is in $(RESULTS); begin with page.html or index.md"

tables-beside-it: $(STAMP)
	if test -d $(RESULTS)/explanations/records; then cd $(RESULTS)/explanations && \
		rm -rf .new && \
		$(abspath $(BIN))/fgai-bench report records --out .new \
			--only explanations,correctness,stability_correctness --format csv,png > /dev/null && \
		rm -rf tables figures && \
		cp -R .new/. . && \
		rm -rf .new; fi
	if test -d $(RESULTS)/paper/records; then $(BIN)/fgai-bench report $(RESULTS)/paper/records \
		--out $(RESULTS)/paper --only deviations,claims,comparison --format csv,markdown > /dev/null; fi
	if test -d $(RESULTS)/tuned/records; then $(BIN)/fgai-bench report $(RESULTS)/tuned/records \
		--out $(RESULTS)/tuned --only leaderboard --format csv > /dev/null; fi

reproduce:
	@sed -n '/^## How to run it again/,$$p' docs/study.md

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

env: $(STAMP)

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV); pip's output is in $(VENV)/pip.log"
	@{ $(if $(BACKEND),$(PIP) uv && $(BIN)/uv pip install --python $(BIN)/python --torch-backend $(BACKEND) $(TORCH_PINS) &&) \
		$(PIP) -c constraints.txt -e ".[all]"; } > $(VENV)/pip.log 2>&1 || \
		{ tail -n 30 $(VENV)/pip.log >&2; echo "The installation failed; the whole output is in $(VENV)/pip.log" >&2; exit 1; }
	touch $@

# One file for every supported Python and platform: lines that hold on some of them carry a marker.
constraints:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --quiet uv
	echo "torch==$(TORCH)" | $(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --only-binary :all: \
		--extra all --constraints - --no-annotate --custom-compile-command "make constraints" --output-file constraints.txt pyproject.toml

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Tests start some hundred processes; where bytecode is not kept, each of them would compile the package anew.
tests slow: export PYTHONDONTWRITEBYTECODE =

tests: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal

slow: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal -m slow

clean:
	rm -rf $(VENV) .tox .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
