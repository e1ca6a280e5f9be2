# Castaway. `make repro` builds the runs in params.yaml, `make test` runs the tests; both install what they need first
# (docs/setup.md).
#
#   make repro [TARGETS="sft@marooned"]   set up, then build as dvc repro does, but independent stages in parallel
#   make repro PROFILE=smollm2            the same with the parameters of profiles/smollm2.yaml, in scratch/smollm2
#   make demo                             set up, then build a small run of all stages in scratch/demo: a first look
#   make test                             set up, then ruff, mypy and every test that is not marked slow
#   make test-all                         the same with the slow tests
#   make test-vllm                        set up, with vLLM in .venv-vllm, then the tests that need it
#   make test-nf4                         set up, fetch bitsandbytes (42 MB), then the tests of weights in 4 bits
#   make test-plugins                     set up, then the tests of plugins that fit beside Castaway's packages
#   make bench                            set up, then the benchmarks
#   make bench-teacher                    set up, with vLLM, then the benchmark of a teacher's server
#   make ui [ROOT=scratch/demo]           the pages of MLflow and Prefect, until Ctrl-C
#   make images                           set up, then draw the curves in the README from what was built
#   make browser                          install Chromium, as root: without it, the tests that open pages are skipped
#   make setup                            only install .venv, from setup/requirements.lock, with uv
#   make setup-vllm                       also install .venv-vllm, vLLM for CPUs, from setup/vllm.lock
#   make lock [UPGRADE=1]                 update the locks after a change of pyproject.toml or constraints-vllm.txt

PYTHON ?= python3
PORT ?= 5000
PREFECT_PORT ?= 4200
TARGETS ?=
PROFILE ?=
ROOT ?= .
BIN := .venv/bin
# The name of a stamp file contains a hash of these files. While they are unchanged, nothing is installed again.
stamp = castaway-$(shell cat setup/install.py setup/torch.lock $(1) | git hash-object --stdin | cut -c1-12)
STAMP := .venv/$(call stamp,setup/requirements.lock pyproject.toml)
# vLLM pins its own torch and transformers, so it has its own environment and is used as a server over HTTP.
VLLM_BIN := .venv-vllm/bin
VLLM_STAMP := .venv-vllm/$(call stamp,setup/vllm.lock)
# DVC runs the commands of stages in a shell, which must find this `python` on the PATH.
ENV := PATH="$(CURDIR)/$(BIN):$$PATH" DO_NOT_TRACK=1 MLFLOW_DISABLE_TELEMETRY=true

NF4 := .bench/bitsandbytes-0.50.2

# verifiers pins another openai than MLflow brings: its README says how to test it in an environment of its own.
PLUGINS ?= $(filter-out plugins/verifiers,$(wildcard plugins/*))

.PHONY: repro demo images test test-all test-vllm test-nf4 test-plugins check bench bench-teacher ui setup setup-vllm lock browser

# The driver runs as many stages in parallel as the cores and `threads` allow; DVC decides whether a stage must run.
# `dvc repro` alone builds the same, one stage after another. The output of each stage is in scratch/logs.
repro: setup $(if $(filter teacher,$(PROFILE)),setup-vllm)
	@$(ENV) python -m flows $(if $(PROFILE),profile $(PROFILE),pipeline) $(TARGETS)

demo: setup
	@$(ENV) python -m flows profile demo

PYTEST := pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 20

test: check
	@$(ENV) $(PYTEST) -m "not slow"

test-all: check
	@$(ENV) $(PYTEST)

check: setup
	@$(ENV) ruff check .
	@$(ENV) ruff format --check .
	@$(ENV) mypy

test-vllm: setup setup-vllm
	@$(ENV) pytest tests/vllm

test-nf4: setup $(NF4)
	@PYTHONPATH=$(NF4) $(ENV) pytest tests/nf4

test-plugins: setup
	@for plugin in $(PLUGINS); do \
		$(BIN)/python setup/plugins.py $$plugin && $(ENV) $$plugin/.venv/bin/python -m pytest $$plugin/tests || exit 1; \
	done

bench: setup
	@$(ENV) python -m benchmarks

bench-teacher: setup setup-vllm
	@$(ENV) python -m benchmarks.teacher

ui: setup
	@cd '$(ROOT)' && $(ENV) python -m flows ui $(PORT) $(PREFECT_PORT)

images: setup
	@$(ENV) castaway images

browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Chromium (a minute, once) ..."; \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium \
			>/dev/null || echo "Chromium could not be installed." >&2; \
	else echo "Chromium is missing and only root can install it: apt-get install chromium" >&2; fi

setup: $(STAMP)

# Packages that are in .venv but no longer in a lock are not removed: torch for AMD may need them.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Castaway needs Python 3.11 or newer; name one with 'make PYTHON=/path/to/python3.11'." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the locked packages into .venv (a minute, once) ..."
	@$(BIN)/python setup/install.py .venv
	@rm -f .venv/castaway-*
	@touch $@

lock: setup
	@$(BIN)/python setup/install.py lock $(if $(UPGRADE),--upgrade)

setup-vllm: $(VLLM_STAMP)

# Installed by the uv in .venv. constraints-vllm.txt, from which setup/vllm.lock is made, lists which of vLLM's
# requirements are left out.
$(VLLM_STAMP): | $(STAMP)
	@test -x $(VLLM_BIN)/python || $(PYTHON) -m venv .venv-vllm
	@echo "Installing vLLM into .venv-vllm (half a minute, 2.4 GB, once) ..."
	@$(BIN)/python setup/install.py .venv-vllm
	@rm -f .venv-vllm/castaway-*
	@touch $@

$(NF4):
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --target $@ bitsandbytes==0.50.2
