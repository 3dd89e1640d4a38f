# The two commands of the README are `make demo` and `make test`; both install what they need first.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/peers/.installed
OLDER := $(VENV)/pyspark-35/.installed $(VENV)/pyspark-40/.installed
SYSTEM := $(VENV)/.system
CLASSES := $(VENV)/spark-classes.jsa $(VENV)/server-classes

# With this set, every Python that a test starts would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help system install demo check test clean-reports lint types unit servers coverage durations size soak torture mutants bench schemas docs lock dist sbom thrift clean

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make install    install lancens and everything its tests need into .venv, at locked versions
install: $(INSTALLED) $(PEERS)

## make system     install what the tests need of Debian's packages, or say what that is
system: $(SYSTEM)

$(SYSTEM): tests/system.sh
	@mkdir -p $(VENV)
	@if sh tests/system.sh; then touch $@; fi

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(sed -n 's/^\(uv==[^ ]*\) .*/\1/p' requirements.lock)"

$(INSTALLED): requirements.lock pyproject.toml | $(SYSTEM) $(BIN)/uv
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# What others made, to be measured against and to read what lancens writes: its caps hold for it alone.
$(PEERS): peers.lock | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/peers
	$(BIN)/uv pip sync --quiet --python $(VENV)/peers/bin/python --require-hashes peers.lock
	touch $@

# The PySpark of managed platforms: each folder comes before the environment's own on the path.
$(OLDER): $(VENV)/%/.installed: tests/pipeline/%.lock | $(BIN)/uv
	rm -rf $(@D)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(@D) --no-deps --require-hashes --requirement $<
	touch $@

## make demo       plan, apply and plan again on examples/quickstart, with real Lance datasets
demo: $(INSTALLED)
	@$(BIN)/python examples/quickstart/demo.py

## make check      lint, strict types, the unit tests and one apply from end to end: the inner loop
check: lint types unit
	$(BIN)/pytest tests/cli/test_examples.py::test_the_demo_ends_in_no_changes

## make test       lint, strict types, and every test, on real servers
test: clean-reports lint
	@$(MAKE) --no-print-directory --jobs=2 types prepared
	@$(MAKE) --no-print-directory unit servers durations

# Reports of each run of pytest, and where lines are counted those, have its name, since two may run at once.
REPORTS = build/tests

clean-reports:
	@rm -rf $(REPORTS) .coverage .coverage-* .coverage.*

## make coverage   the same, and the lines that it ran: apart, since counting them takes a third of the time
coverage:
	@$(MAKE) --no-print-directory test COUNTED=1
	$(BIN)/coverage combine --quiet .coverage-*
	$(BIN)/coverage report

## make durations  how long the last run of each folder took, and its slowest tests
durations: $(INSTALLED)
	@$(BIN)/python -m tests.durations $(REPORTS)

## make size       lines of code proper by room, without docstrings, comments, blanks and generated files
size: $(INSTALLED)
	@$(BIN)/python -m tests.size

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.words

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	$(if $(COUNTED),COVERAGE_FILE=.coverage-unit) $(BIN)/pytest --junitxml=$(REPORTS)/unit.xml \
		$(if $(COUNTED),--cov --cov-report=) -m "not end_to_end" -n 2 --dist worksteal tests/unit tests/cli tests/applier

## make servers    the tests on servers, folder by folder; ONLY="glue hive" names some, WORKERS=2 runs two at once
servers: $(INSTALLED) prepared
	@$(BIN)/python -m tests.folders $(if $(WORKERS),--workers $(WORKERS)) $(if $(COUNTED),--counted) $(ONLY)

# Preparing classes uses one core at a time, as do types: `make test` runs them side by side.
.PHONY: prepared
prepared: $(PEERS) $(CLASSES)

# Spark and the servers start in half of the CPU seconds where their classes are prepared.
$(VENV)/spark-classes.jsa: $(INSTALLED)
	-$(BIN)/python -m tests.servers.spark_classes > $(VENV)/spark-classes.log 2>&1

$(VENV)/server-classes: $(INSTALLED)
	-$(BIN)/python -m tests.servers.class_data > $(VENV)/server-classes.log 2>&1

## make soak       the long checks in full: kills, proxies, fuzzing, big tables; seeds are printed
soak: $(INSTALLED) $(PEERS) $(OLDER) build/covered/version
	LANCENS_SOAK=1 $(BIN)/pytest -m soak -s --timeout 14400 tests
	-$(BIN)/python -m tests.mutants --number 400

## make torture    every server under faults, kills and races, against what it truly holds (docs/reliability.md)
torture: $(INSTALLED)
	$(BIN)/python -m tests.torture

## make mutants    change one thing of lancens at a time, and see whether a test fails: a fixed sample of 120
mutants: $(INSTALLED) build/covered/version
	$(BIN)/python -m tests.mutants

# Which tests run which lines, of the version that is there when it is first asked for: `make clean` drops it.
build/covered/version: | $(INSTALLED)
	-$(BIN)/python -m tests.covered

## make bench      benchmarks side by side, as ratios and call counts, written to benchmarks/RESULTS.md
bench: $(INSTALLED) $(PEERS)
	$(BIN)/python -m benchmarks

## make schemas    write schemas/*.json again after a model has changed
schemas: $(INSTALLED)
	$(BIN)/lancens schema manifest -o schemas/manifest.schema.json
	$(BIN)/lancens schema test -o schemas/test.schema.json
	$(BIN)/lancens schema plan -o schemas/plan.schema.json
	$(BIN)/lancens schema audit -o schemas/audit.schema.json

## make docs       build the documentation site into build/docs; a link that leads nowhere is an error
docs: $(INSTALLED)
	$(BIN)/zensical build --clean --strict

## make lock       resolve what all locks pin; UPGRADE=--upgrade takes the newest versions
lock: $(BIN)/uv
	$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--extra dev --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--group peers --output-file peers.lock
	for each in pyspark-35 pyspark-40; do \
		$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --group $$each --output-file tests/pipeline/$$each.lock || exit 1; \
	done

## make dist       build what is released into dist/, and check it in an environment of its own
dist: $(INSTALLED)
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist .
	$(BIN)/uv tool run --quiet twine==7.0.0 check --strict dist/*
	for built in dist/*.tar.gz dist/*.whl; do \
		$(BIN)/uv venv --quiet --clear --python $(BIN)/python dist/.check && \
		$(BIN)/uv pip install --quiet --python dist/.check/bin/python "$$built" && \
		(cd / && "$(CURDIR)/dist/.check/bin/lancens" --version) || exit 1; \
	done
	rm -rf dist/.check

## make sbom       list what a release installs, and what the lock pins, as CycloneDX in build/sbom
CYCLONEDX := $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py
sbom: $(INSTALLED)
	rm -rf build/sbom/.venv && mkdir -p build/sbom
	$(CYCLONEDX) requirements requirements.lock --pyproject pyproject.toml -o build/sbom/lock.cdx.json
	$(BIN)/uv venv --quiet --python $(BIN)/python build/sbom/.venv
	$(BIN)/uv pip install --quiet --python build/sbom/.venv/bin/python --constraint requirements.lock '.[all]'
	$(CYCLONEDX) environment build/sbom/.venv --pyproject pyproject.toml -o build/sbom/lancens.cdx.json
	rm -rf build/sbom/.venv

## make thrift     generate Hive's Thrift client from its IDL again (needs Debian's thrift-compiler)
thrift:
	thrift --gen py -out reconciler/backends/hive reconciler/backends/hive/metastore.thrift
	rm -f reconciler/backends/hive/gen/*-remote

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
