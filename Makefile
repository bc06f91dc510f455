# Everything a person or CI does with this repository. `make` lists it.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help up demo test faults slow seeds thorough lint format generate bench e2e-assets e2e clean

help: ## List what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(INSTALLED): requirements.txt constraints.txt $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Stromboli needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	@echo "Installing into $(VENV) (about a minute the first time) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt -c constraints.txt
	@touch $@

up: $(INSTALLED) ## Run everything on this machine until Ctrl-C
	@$(BIN)/stromboli up --dir build/up

demo: $(INSTALLED) ## Run two jobs and one that is too large, and show where the time went
	@$(BIN)/stromboli demo

test: $(INSTALLED) ## Run the tests; they need nothing but Python
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "not e2e and not slow" --ignore tests/faults

faults: $(INSTALLED) ## Kill, freeze, deceive and wipe real processes
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "not e2e and not slow" tests/faults

slow: $(INSTALLED) ## Kill every process at every turn of a job's life, submit thousands of jobs (20 minutes)
	@$(BIN)/pytest -q -m "slow and not e2e"

seeds: $(INSTALLED) ## Look at new examples where properties are tested; `make test` looks at the same ones each time
	@STROMBOLI_SEEDS=new $(BIN)/pytest -q -n 2 --dist loadfile --timeout 1800 -m hypothesis tests/unit

thorough: $(INSTALLED) ## Look at new examples, ten times as many (30 minutes)
	@STROMBOLI_SEEDS=new STROMBOLI_EFFORT=10 $(BIN)/pytest -q -n 2 --timeout 3600 -m hypothesis tests/unit

lint: $(INSTALLED) ## Style, types, layers, spelling, generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell libs services tests bench docs README.md CONTRIBUTING.md CHANGELOG.md
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports
	@$(BIN)/python -m stromboli.api.crds --check deploy/crds
	@$(BIN)/python -m stromboli.admitting.reference --check .
	@$(BIN)/python -m stromboli.contracts.guarantees --check .

format: $(INSTALLED) ## Format the code and apply safe fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: $(INSTALLED) ## Write the files that are made from types and tables
	@$(BIN)/python -m stromboli.api.crds --write deploy/crds
	@$(BIN)/python -m stromboli.admitting.reference --write .
	@$(BIN)/python -m stromboli.contracts.guarantees --write .
	@$(BIN)/python -m stromboli.lifecycle.reference --write docs/reference/job-lifecycle.md

bench: $(INSTALLED) ## Measure and print the figures of bench/ (a few minutes)
	@$(BIN)/python -m bench

e2e-assets: ## Build kube-apiserver and kubectl once, into a cache folder (4 to 6 minutes)
	@tests/e2e/apiserver/build.sh

e2e: $(INSTALLED) ## Run the tests that need a real kube-apiserver and etcd
	@$(BIN)/pytest -q -n 2 --dist loadfile -m e2e

clean: ## Remove what was installed and built here
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
