# two commands: make demo, make test; both set up what they need (root, Debian 12, Python 3.11 or newer)
PYTHON ?= python3
VENV ?= .venv

.PHONY: demo test lint types unit lab clean

demo: $(VENV)/ready
	$(VENV)/bin/ddops lab demo

test: lint types unit lab

lint: $(VENV)/ready-dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

types: $(VENV)/ready-dev
	$(VENV)/bin/mypy

unit: $(VENV)/ready-dev
	$(VENV)/bin/pytest -m "not lab"

# real hosts, real SSH, real journald; the engine is the real SGLang where no exact moment is needed
lab: $(VENV)/ready-dev
	$(VENV)/bin/ddops lab engine
	$(VENV)/bin/pytest -m lab

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || (apt-get update -q && apt-get install -y -q python3-venv)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q -e .
	touch $@

$(VENV)/ready-dev: $(VENV)/ready
	$(VENV)/bin/pip install -q -e .[dev]
	touch $@

clean:
	rm -rf $(VENV)
