# Two commands are all a newcomer needs: `make demo` and `make test`.  Each makes the virtual environment and installs
# what runtime.lock (demo), docs.lock (site) or requirements.lock (all others) pins when something changed, then does its job.

VENV  ?= .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
# What Arnold itself runs with is part of what tests need, so an environment for these will do for the demo.
DEMO_STAMP := $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/.runtime)
PIP   := $(BIN)/python -m pip --disable-pip-version-check --no-input
# uv installs in seconds what takes pip minutes, so it is used where it is there; `make UV= demo` does without.
UV    ?= $(shell command -v uv 2>/dev/null)
# Which interpreter makes the environment; the first of these that is Python 3.11 or later unless PYTHON says otherwise.
PYTHON     ?=
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
# Of `make soak`.
ARNOLD_KILLS ?= 200
# What was compiled is kept: each process of each run would compile pytest and its plugins again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test properties e2e releases launchers slurm pages soak lint format bench site reference lock clean

help: ## show the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 12

demo: $(DEMO_STAMP) ## place a 9,600-GPU job on a fragmented cluster; write arnold-demo.html, and its files to try/
	$(BIN)/arnold demo --save try

test: $(STAMP) ## run the tests, all but those on a control plane, of launchers and of pages with axe-core; properties with a twentieth of their examples
	$(BIN)/python -m pytest -m "not control_plane and not launchers and not accessibility"

properties: $(STAMP) ## run the property tests with all their examples
	ARNOLD_CASES=all $(BIN)/python -m pytest -m "(hypothesis or many_cases) and not control_plane"

e2e: $(STAMP) ## run the tests on a real Kubernetes control plane, which is built the first time (needs Go)
	$(BIN)/python -m pytest -m "control_plane and not releases"

releases: $(STAMP) ## run gangs on the oldest and the newest Kubernetes, each built the first time (needs Go; minutes each)
	$(BIN)/python -m pytest -m releases -n 0 -v

launchers: $(STAMP) ## start jobs with Slurm, Open MPI and torchrun, where they are installed, and see which rank ran where
	$(BIN)/python -m pytest -m launchers

slurm: $(STAMP) ## start jobs with the Slurm of this machine, and with those in the chroots that ARNOLD_SLURM_ROOTS names
	ARNOLD_KILLS=60 $(BIN)/python -m pytest -m launchers -n 0 -rs -v -k slurm

pages: $(STAMP) ## show every HTML page, and pages of the site after `make site`, to axe-core in a browser, where Chromium and npm are installed
	$(BIN)/python -m pytest -m accessibility

soak: $(STAMP) ## kill every program of a real control plane, 200 times in all, while gangs come and nodes fail
	ARNOLD_KILLS=$(ARNOLD_KILLS) $(BIN)/python -m pytest tests/e2e/test_soak.py -n 0

lint: $(STAMP) ## check style, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the code in our style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## a short run of most benchmarks; benchmarks/README.md has the long ones
	$(BIN)/python -m benchmarks quick

site: $(VENV)/.docs ## build the documentation as a site in build/site; a warning, such as a link that leads nowhere, is an error
	rm -rf build/site
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs -d build/doctrees . build/site
	@! grep -rE --include='*.html' '<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//' build/site || \
	  { echo "Pages load the above from other hosts" >&2; exit 1; }

reference: $(STAMP) ## write the pages of the reference that are made from the program: commands, formats, schemas
	$(BIN)/python -m docs.generate

lock: ## pin the newest versions that pyproject.toml allows in the three lock files
	@$(environment)
	@$(PIP) install --quiet uv
	$(BIN)/$(call compile,requirements.lock) --upgrade --extra dev --extra learn --extra dask pyproject.toml
	@# setuptools builds Arnold itself, and is installed first
	echo setuptools | $(BIN)/$(call compile,runtime.lock) --constraint requirements.lock pyproject.toml -
	echo setuptools | $(BIN)/$(call compile,docs.lock) --constraint requirements.lock --extra docs pyproject.toml -

clean: ## remove the virtual environment and everything that was built
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements.lock pyproject.toml
	$(call install_pinned,requirements.lock,250)

$(VENV)/.runtime: runtime.lock pyproject.toml
	$(call install_pinned,runtime.lock,165)

$(VENV)/.docs: docs.lock pyproject.toml
	$(call install_pinned,docs.lock,215)

# install_pinned(lock file, MB to download), which leaves the stamp that is the target
define install_pinned
@$(environment)
@echo "1/2 Installing what $(1) pins (about $(2) MB to download the first time)"
@$(call install,--require-hashes --requirement $(1))
@echo "2/2 Installing Arnold"
@$(call install,--no-deps --no-build-isolation --editable .)
@touch $@
endef

# compile(lock file): uv and its options, with what Arnold itself can run with on every platform and Python
compile = uv pip compile --extra tables --extra kubernetes --extra plots --universal --python-version 3.11 \
  --fork-strategy fewest --generate-hashes --no-annotate --no-emit-index-url --quiet \
  --custom-compile-command "make lock" --output-file $(1)

# With uv, or where there is none or it fails (it does not read pip's settings, such as a mirror) with pip, which shows
# a line for each package.
define install
{ [ -n "$(UV)" ] && $(UV) pip install --python $(BIN)/python $(1); } || $(PIP) install --retries 10 $(1)
endef

# The environment is made anew only where pip is missing from it (a half-made one has no pip).
define environment
if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
  for python in $(CANDIDATES); do \
    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && found=$$python && break; \
  done; \
  if [ -z "$$found" ]; then \
    echo "Arnold needs Python 3.11 or later; none of these is: $(CANDIDATES)" >&2; \
    echo "To fix: install one, or name it: make PYTHON=/path/to/python3.11 demo" >&2; \
    exit 1; \
  fi; \
  echo "Making the virtual environment $(VENV) with $$($$found --version)"; \
  rm -rf $(VENV); \
  if ! $$found -m venv $(VENV); then \
    rm -rf $(VENV); \
    echo "To fix: install the venv module of that Python (Debian, Ubuntu: apt-get install python3-venv)" >&2; \
    exit 1; \
  fi; \
fi
endef
