# two commands: make demo, make test; both set up what they need (root, Debian 12, Python 3.11 or newer)
PYTHON ?= python3
VENV ?= .venv
# four of them keep two cores busy
WORKERS ?= 4

.PHONY: demo test lint types unit overlay lab distributions clean

demo: $(VENV)/ready
	$(VENV)/bin/ddops lab demo

test: lint types unit overlay lab

lint: $(VENV)/ready-dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

types: $(VENV)/ready-dev
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --python-version 3.10 ddops/agent  # hosts have 3.9 and newer; mypy knows none older than this

unit: $(VENV)/ready-dev
	$(VENV)/bin/pytest -m "not lab" -n 2

# the overlay's own tests, in the environment of the engine that it changes
overlay: $(VENV)/ready-dev
	$(VENV)/bin/ddops lab engine --json > $(VENV)/engine.json
	test -d $(VENV)/pytest-xdist || $(VENV)/bin/pip install -q --target $(VENV)/pytest-xdist pytest pytest-xdist
	PYTHONPATH=$(VENV)/pytest-xdist DDOPS_ENGINE=$(VENV)/engine.json \
	  $$($(VENV)/bin/python -c 'import json; print(json.load(open("$(VENV)/engine.json"))["binds"][0][0])')/bin/python \
	  -m pytest -q -n 2 -c /dev/null --rootdir . -p no:cacheprovider tests/overlay

# real hosts, real SSH, real journald; the engine is the real SGLang where no exact moment is needed
lab: $(VENV)/ready-dev
	test $$(id -u) = 0  # lab hosts are systemd-nspawn containers: without root every test would be skipped
	$(VENV)/bin/ddops lab engine
	$(VENV)/bin/pytest -m lab tests/lab/test_hosts.py  # alone: it compares all that a lab may leave on this machine
	$(VENV)/bin/pytest -m "lab and engine"  # alone too: the real SGLang needs the machine
	$(VENV)/bin/pytest -m "lab and not engine" --ignore tests/lab/test_hosts.py -n $(WORKERS)

# the whole scripted lab on each other distribution; not in 'make test': a quarter of an hour each
distributions: $(VENV)/ready-dev
	for each in trixie jammy noble; do \
	  DDOPS_LAB_DISTRIBUTION=$$each $(VENV)/bin/pytest -m "lab and not engine" --ignore tests/lab/test_hosts.py \
	    -n $(WORKERS) || exit 1; \
	done

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || (apt-get update -q && apt-get install -y -q python3-venv)
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/pip install -q -e .
	touch $@

$(VENV)/ready-dev: $(VENV)/ready
	$(VENV)/bin/pip install -q -e .[dev]
	touch $@

clean:
	rm -rf $(VENV)
