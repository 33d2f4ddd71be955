# make demo: see what it is for.   make test: before a commit.   make check: what a change must pass.   make bench: the figures in the docs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CONSTRAINTS := .ci/constraints.txt
MYPYS := tests/typing/older_mypys.txt
# mypy beside pyright, and one environment beside another
MAKEFLAGS += --jobs=2
# bytecode is kept whatever the shell says: tests start hundreds of processes, each of which would compile the plugin
export PYTHONDONTWRITEBYTECODE =

.PHONY: migrations demo test check check-tests check-peers lowest docs docs-look pictures bench bench-docs caught-docs bugs-docs silent-docs editors-docs vscode design-docs overlay-docs licences-docs release-check fuzz lint types mypy pyright clean help
.DEFAULT_GOAL := help

help:
	@sed -n '1s/^# //p' Makefile

$(VENV)/.demo: pyproject.toml $(CONSTRAINTS)
	@echo "setting up $(VENV) (once; torch, mypy and gymnasium take about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --constraint $(CONSTRAINTS) --editable '.[demo]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@echo "adding to $(VENV) (once; six type checkers and the peers take a few minutes)"
	@$(PIP) install --constraint $(CONSTRAINTS) --editable '.[dev]'
	@touch $@

# each older mypy in an environment of its own, for tests/typing; it finds all other packages in $(VENV)
$(VENV)/.mypys: $(VENV)/.dev $(MYPYS) tests/typing/share_packages.py
	@rm -rf $(VENV)/mypy
	@set -e; for version in $$(cat $(MYPYS)); do \
		$(BIN)/python -m venv --without-pip $(VENV)/mypy/$$version; \
		$(PIP) --python $(VENV)/mypy/$$version install mypy==$$version; \
		$(BIN)/python tests/typing/share_packages.py $(VENV)/mypy/$$version; \
	done
	@touch $@

# RLlib and TransferQueue in an environment of their own, to measure and to test against; they find all other packages in
# $(VENV), also while they are installed, as TransferQueue asks for torch
$(VENV)/.rllib: $(VENV)/.dev tests/typing/share_packages.py
	@rm -rf $(VENV)/rllib
	@$(BIN)/python -m venv --without-pip $(VENV)/rllib
	@$(BIN)/python tests/typing/share_packages.py $(VENV)/rllib
	@$(PIP) --python $(VENV)/rllib install --constraint $(CONSTRAINTS) ray dm-tree scipy TransferQueue
	@touch $@

# buffers of others to measure against
$(VENV)/.bench: $(VENV)/.rllib
	@$(PIP) --python $(VENV)/rllib install --constraint $(CONSTRAINTS) --no-deps cpprb torchrl stable-baselines3
	@touch $@

# verl, without most of what it needs to train, and TRL, to test against; they find all other packages in $(VENV)
$(VENV)/.verl: $(VENV)/.dev tests/typing/share_packages.py
	@rm -rf $(VENV)/verl
	@$(BIN)/python -m venv --without-pip $(VENV)/verl
	@$(PIP) --python $(VENV)/verl install --constraint $(CONSTRAINTS) ray transformers omegaconf psutil
	@$(PIP) --python $(VENV)/verl install --constraint $(CONSTRAINTS) --no-deps verl trl accelerate
	@$(BIN)/python tests/typing/share_packages.py $(VENV)/verl
	@touch $@

# other checkers of shapes, for the table of docs/shapes.md; two of the packages of stubs ask for a newer Python
$(VENV)/.rivals: $(VENV)/.dev tests/typing/share_packages.py
	@rm -rf $(VENV)/rivals
	@$(BIN)/python -m venv --without-pip $(VENV)/rivals
	@$(PIP) --python $(VENV)/rivals install --no-deps --ignore-requires-python torchtyc==0.5.0 torchshapeflow==0.7.3 \
		pyrefly==1.4.1 pyrefly-shape-extensions==1.4.0 pyrefly-torch-stubs==1.4.0 pyrefly-numpy-stubs==1.4.0 pyrefly-einops-stubs==1.4.0
	@$(BIN)/python tests/typing/share_packages.py $(VENV)/rivals
	@touch $@

demo: $(VENV)/.demo
	@$(BIN)/python docs/examples/demo.py

test: $(VENV)/.dev lint types
	$(BIN)/python -m pytest -n auto --dist worksteal --quick

check: lint types check-tests check-peers

check-tests: $(VENV)/.dev $(VENV)/.mypys
	$(BIN)/python -m pytest -n auto --dist worksteal

# beside the others, as these tests wait most of their time for processes that they start
check-peers: $(VENV)/.rllib $(VENV)/.verl
	$(VENV)/rllib/bin/python -m pytest tests/with_rllib tests/with_transfer_queue tests/evidence/tianshou_overlay/test_other_stubs.py
	$(VENV)/verl/bin/python -m pytest tests/with_verl tests/with_trl \
		'tests/evidence/tianshou_overlay/test_other_stubs.py::test_a_stub_declares_what_is_there[verl/protocol.pyi]'

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: mypy pyright

mypy: $(VENV)/.dev
	$(BIN)/mypy

pyright: $(VENV)/.dev
	$(BIN)/pyright

bench: $(VENV)/.bench
	$(VENV)/rllib/bin/python -m tests.benchmarks

# for another Python: make bench-docs PYTHON=python3.13 VENV=.venv-3.13 PAGE=build/performance-3.13.md
PAGE := docs/evidence/performance.md
bench-docs: $(VENV)/.bench
	$(VENV)/rllib/bin/python -m tests.benchmarks --markdown > $(PAGE)
	$(BIN)/python -m tests.pictures

# public programs before and after their move, from checkouts in a folder: make migrations REPOS=FOLDER
REPOS := ..
migrations: $(VENV)/.dev
	$(BIN)/python -m tests.evidence.migrations $(REPOS)

caught-docs: $(VENV)/.dev
	$(BIN)/python -m tests.evidence.caught > docs/evidence/caught.md

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -b html -q -W --keep-going docs build/site
	@echo "build/site/index.html"

# the site in a browser: Debian's chromium, or the one of playwright install chromium
docs-look: docs
	@$(PIP) install --constraint $(CONSTRAINTS) --editable '.[look]'
	$(BIN)/python -m tests.look

pictures: $(VENV)/.dev
	$(BIN)/python -m tests.pictures

bugs-docs: $(VENV)/.dev
	@$(BIN)/python -m tests.evidence.bugs > docs/evidence/bugs.md

silent-docs: $(VENV)/.dev
	$(BIN)/python -m tests.evidence.silent > docs/evidence/silent.md

editors-docs: $(VENV)/.dev
	$(BIN)/python -m tests.evidence.editor.measure > docs/evidence/editors.md

# the extension for VS Code, with npm: build/typedbatch.vsix
vscode:
	@rm -rf build/vscode && mkdir -p build && cp -r docs/editors/vscode build/vscode && cp LICENSE build/vscode/LICENSE
	@cd build/vscode && npm install --ignore-scripts --no-audit --no-fund --silent && npm run --silent package

design-docs: $(VENV)/.dev
	$(BIN)/python -m tests.rooms

overlay-docs: $(VENV)/.dev
	$(BIN)/python -m tests.evidence.tianshou_overlay.found

# A release's own check that the lowest versions do: torch 2.4 comes with gigabytes of GPU packages. Left out are tests
# of tools and peers, and those whose very data needs newer ones.
LOWEST := $(VENV)/lowest
lowest:
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip --quiet install --constraint .ci/lowest.txt --editable '.[torch,pydantic,jaxtyping,rules,hdf5,lz4,arrow,cli]' \
		click gymnasium hypothesis jsonschema optree pandas pytest pytest-timeout pytest-xdist typeguard beartype
	$(LOWEST)/bin/python -m pytest -n auto -W ignore::FutureWarning tests/ops tests/buffers tests/distributions tests/episodes \
		tests/validation tests/testing tests/sample_batches tests/schema tests/files tests/bridges/test_pydantic.py \
		tests/bridges/test_other_checkers.py tests/test_algebra.py tests/test_display.py tests/test_imports.py \
		tests/test_records.py tests/test_torch.py $(addprefix --ignore=tests/,buffers/test_hdf5.py \
		files/test_refusals.py files/test_other_programs.py files/test_hostile_fields.py) \
		--deselect tests/files/test_hostile_hdf5.py::test_filters_that_nobody_writes_are_not_run # of a newer HDF5

licences-docs: $(VENV)/.rllib
	$(VENV)/rllib/bin/python -m tests.release.licences > docs/evidence/licences.md

# Tests that make check leaves out are run; HEAD is built, installed into empty environments and seen by six type checkers;
# dist then has what can be uploaded.
# Another Python: make release-check PYTHONS="--python PATH --python PATH"
release-check: $(VENV)/.dev $(VENV)/.mypys
	$(BIN)/python -m pytest -n auto --dist worksteal --release -m release
	$(BIN)/python -m tests.release $(PYTHONS)

fuzz: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --hypothesis-profile=fuzz tests
	$(PIP) install atheris
	$(BIN)/python -m tests.fuzz.validate -max_total_time=120 -max_len=400

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
