# make demo    set up .venv and train five units on multiple sequence copy, in minutes
# make test    set up .venv and check everything: style, types, doors between modules, tests
# make matrix  run the tests as other machines would: other vectors, one core, no compiler, ...
# make site    build the documentation as a site, into site/
# make clean   remove .venv and caches
#
# PYTHON=python3.12 picks another interpreter; JOBS=4 another number of test processes.

PYTHON ?= python3
JOBS ?= auto
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test matrix site clean

demo: $(VENV)/installed
	$(BIN)/rda demo

test: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@echo "$(BIN)/mypy, beside $(BIN)/pytest -n $(JOBS) --dist worksteal"
	@$(BIN)/mypy > $(VENV)/mypy.txt 2>&1 & checking=$$!; \
	$(BIN)/pytest -n $(JOBS) --dist worksteal; tested=$$?; \
	wait $$checking; typed=$$?; cat $(VENV)/mypy.txt; \
	exit $$((tested || typed))

matrix: $(VENV)/installed
	$(BIN)/python tools/matrix.py --jobs $(JOBS)

site: $(VENV)/installed
	$(BIN)/python tools/site_pages.py

$(VENV)/installed: pyproject.toml constraints.txt tools/make_venv.py
	@command -v $(PYTHON) >/dev/null || { echo "rda needs Python 3.11 or newer, and there is no '$(PYTHON)' here: install it, or name one with 'make PYTHON=...'"; exit 1; }
	@$(PYTHON) tools/make_venv.py $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis site report
