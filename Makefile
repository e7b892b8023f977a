# No activation is needed: everything runs from .venv in the checkout.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test clean

demo: .venv/.demo
	$(BIN)/python examples/demo.py --output demo

test: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

.venv/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/.test: .venv/.demo
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[test]"
	touch $@

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
