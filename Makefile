# make demo    the main job, on a fresh machine
# make test    everything that can be proved here
# make help    the rest

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
JOBS ?= 2
# Many tests of the tools wait for a while, and some for a minute.
WAITING_JOBS := $(shell expr $(JOBS) + 1)

.PHONY: help demo demo-clean test check extension unit tools e2e clients test-vm lint style completions docs build lab lab-up lab-down bench spike soak clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the real agent in the sandbox, against an embedded model; installs what is missing
	@tests/demo/run

demo-clean: ## take back everything that the demo made
	@tests/demo/clean

test: check tools e2e ## lint, types, unit, golden, property, tool and end-to-end tests, the laboratory made by itself

check: lint unit extension ## what can be checked without podman

unit: $(VENV)/ready ## unit, golden and property tests
	$(PYTEST) -q -n $(JOBS) tests/unit tests/golden tests/properties

extension: pi-extension/node_modules/.checked ## types and unit tests of the pi extension

pi-extension/node_modules/.checked: tests/pi-extension $(wildcard pi-extension/*.json pi-extension/*.ts pi-extension/.npmrc) \
		$(shell find pi-extension/src pi-extension/test -type f)
	tests/pi-extension
	touch $@

tools: $(VENV)/ready lab-up ## the real nft, squid and shell on what is rendered
	$(PYTEST) -q -n $(WAITING_JOBS) --dist loadfile tests/tools

e2e: $(VENV)/ready lab-up ## the whole thing in real rootless podman, on both hosts
	$(PYTEST) -q -n $(JOBS) --dist loadgroup --durations 25 tests/e2e

clients: $(VENV)/ready lab-up ## what people run in a sandbox, for the matrix in docs/compatibility.md; an image of 3 GB
	$(PYTEST) -q -s --timeout 3600 tests/clients

test-vm: $(VENV)/ready ## caps on memory, processors and processes, in a virtual machine; 15 minutes and 3 GB
	$(PYTEST) -q -s --timeout 3600 tests/vm

lint: $(VENV)/ready ## ruff, mypy, import-linter, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@tests/shellcheck

style: $(VENV)/ready ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

completions: $(VENV)/ready ## the files in config/completions, from the tables of options
	$(BIN)/python -m aisb.cli.completion config/completions

docs: $(VENV)/ready ## docs/cli.md and config/schemas, from the tables of options
	$(BIN)/python -m aisb.cli.manual .

build: $(VENV)/ready ## the wheel
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

lab-up: ## make the laboratory: two hosts, a fake internet, both images
	tests/lab/up

lab-down: ## end the laboratory's processes
	tests/lab/down

# The text reaches the script byte for byte: make would eat every $$ of $(CMD).
lab: export LAB_CMD := $(value CMD)
lab: ## run CMD='...' in the laboratory (LAB_HOST=debian12 for the other host)
	@tests/lab/run "$$LAB_CMD"

bench: $(VENV)/ready lab-up ## measure, and compare with the targets; JSON=FILE for the document
	tests/bench/run $(if $(JSON),--json '$(JSON)')

spike: $(VENV)/ready lab-up ## measure what the design rests on again, and print what differs from docs/networking.md
	tests/bench/spike

soak: $(VENV)/ready lab-up ## streams that are silent for an hour; MINUTES=5 for less
	tests/bench/soak

$(VENV)/ready: pyproject.toml
	tests/deps
	python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean: ## remove what make made in this folder
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis pi-extension/node_modules pi-extension/.node
