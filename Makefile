# SPDX-License-Identifier: Apache-2.0
# `make` lists the targets. Each makes what it needs first, unless that is up to date.

# The Python to make the virtual environments with: 3.11 or later.
PYTHON ?= python3
# make demo: the number of generated rows and of keys, instead of the flights; DEMO_ARGS is passed
# on to the demo.
ROWS ?=
KEYS ?=
DEMO_ARGS ?=
# make simulate: how many schedules, from which seed on. make soak: for how long, with which seed.
SCHEDULES ?= 1000
SEED ?= 1
MINUTES ?= 60
# make test-python, make test-all: options for pytest, for example PYTEST_ARGS='-k rescale'.
PYTEST_ARGS ?=
# make bench: which of the benchmarks, and options for them, for example BENCH=steady
# BENCH_ARGS='--rounds 9'.
BENCH ?= steady step latency operations losses relocations standbys elastic durability stores \
  memory flame
BENCH_ARGS ?=

SPARK_4_2 := 4.2.0
VENV := .venv
VENV_4_2 := .venv-4.2
VENV_DONE := $(VENV)/.done
VENV_4_2_DONE := $(VENV_4_2)/.done
JARS := python/spark_megaphone/jars
JARS_DONE := $(JARS)/.done
# The fault points are built with the JVM tests of Spark 4.2, and serve on both versions.
FAULTS_JAR := jvm/spark/target/spark-4.2/spark-megaphone-faults.jar
FAULTS_SOURCES := $(wildcard jvm/spark/src/test/scala/io/megaphone/spark/faults/* \
  jvm/spark/src/test/scala/io/megaphone/spark/shapes/*)
# What the tests on stores need beside Spark: the jars of stores/<name>.xml come into target/<name>.
STORES := $(basename $(notdir $(wildcard integration-tests/stores/*.xml)))
STORES_DONE := $(STORES:%=target/%/.done)
# The published artifacts, in the layout of a Maven repository.
MAVEN := target/maven
MAVEN_DONE := $(MAVEN)/.done
# What the Python tests run on.
BUILT = $(VENV_DONE) $(JARS_DONE) $(FAULTS_JAR) $(STORES_DONE)
# Folders stand beside their files, so that a file's removal is noticed too.
JAR_SOURCES := $(shell find jvm/core/src/main jvm/spark/src/main 2>/dev/null) \
  build.sbt pyproject.toml LICENSE NOTICE \
  $(wildcard project/*.sbt project/*.scala project/build.properties)
# The folders that hold Python, of those that may.
PYTHON_SOURCES := $(foreach folder,python testkit integration-tests benchmarks demo soak,\
  $(if $(shell find $(folder) -name '*.py' 2>/dev/null),$(folder)))

NOTEBOOKS := $(wildcard docs/*.ipynb)

# Each part's beginning, for the times that `make test` tells at its end.
TIMES := target/times
JVM_LOG := target/spark42-tests.log
say = @echo "==> $(1)"; mkdir -p $(dir $(TIMES)); echo "$$(date +%s) $(1)" >> $(TIMES)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup jars faults-jar stores fmt lint test-jvm test-python test-cluster test test-all \
  test-all-4.2 test-all-4.3 neutrality-stock demo simulate soak pictures bench wheel publish-local \
  clean

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV_DONE) $(JARS_DONE) ## makes .venv with all dependencies, and builds the jars

jars: $(JARS_DONE) ## builds the jars, one per Spark minor, for the Python package

stores: $(STORES_DONE) ## fetches what the tests on S3, HDFS and Kafka need

faults-jar: $(FAULTS_JAR) ## builds the jar that lets things go wrong in the Python tests

fmt: $(VENV_DONE) ## formats the Scala and Python sources
	$(call say,Formatting the Scala sources)
	@./sbt fmt
	$(call say,Formatting the Python sources)
	@$(VENV)/bin/ruff format $(PYTHON_SOURCES) $(NOTEBOOKS)
	@$(VENV)/bin/ruff check --fix $(PYTHON_SOURCES) $(NOTEBOOKS)

lint: $(VENV_DONE) ## checks format, style and Python types; changes nothing
	$(lint_python)
	$(call say,Checking the format of the Scala sources)
	@./sbt lint

test-jvm: $(VENV_DONE) ## runs the JVM tests: core and Spark 4.2; compiles for 4.3
	$(call say,Running the JVM tests: core and Spark 4.2)
	@./sbt core/test spark42/test spark43/compile

test-python: $(BUILT) ## runs the Python tests, and the short ones on real processes, on Spark 4.3
	$(call say,Running the Python tests on Spark 4.3)
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-cluster: $(BUILT) ## runs all tests on real processes, the long ones too, on Spark 4.3
	$(call say,Running the cluster tests on Spark 4.3)
	@$(VENV)/bin/python -m pytest -m '' integration-tests $(PYTEST_ARGS)

# What `lint`, `test-jvm` and `test-python` do. The tests on Spark use a good half of two cores, JVM
# and Python alike, because they wait for batches, processes and files; so the two run side by side.
test: $(VENV_DONE) $(STORES_DONE) ## runs what a change must pass: lint, JVM and Python tests
	@rm -f $(TIMES)
	$(lint_python)
	$(call say,Checking the format of the Scala sources; tests of the core; building the jars)
	@./sbt lint core/test spark42/Test/compile spark42/faultsJar $(ASSEMBLIES)
	$(take_jars)
	$(call say,Running the JVM tests on Spark 4.2 and the Python tests on Spark 4.3)
	@./sbt spark42/test >$(JVM_LOG) 2>&1 & jvm=$$!; trap "kill $$jvm 2>/dev/null" EXIT; \
	  $(VENV)/bin/python -m pytest --durations=10 --durations-min=1 $(PYTEST_ARGS); python=$$?; \
	  echo "==> The JVM tests on Spark 4.2, which ran meanwhile"; \
	  wait $$jvm; jvm=$$?; cat $(JVM_LOG); exit $$((python + jvm))
	$(call say,Done)
	$(tell_times)

test-all: lint test-all-4.2 test-all-4.3 ## runs every test on both Spark versions

# The Python tests first: what they find is known within the first half hour.
test-all-4.2: $(BUILT) $(VENV_4_2_DONE) ## runs every test of the core, and every test on Spark 4.2
	$(call say,Running the Python tests on Spark 4.2)
	@$(VENV_4_2)/bin/python -m pytest -m '' $(PYTEST_ARGS)
	$(call say,Running the JVM tests: core and Spark 4.2)
	@MEGAPHONE_TESTS=all ./sbt core/test spark42/test

test-all-4.3: $(BUILT) ## runs every test on Spark 4.3
	$(call say,Running the Python tests on Spark 4.3)
	@$(VENV)/bin/python -m pytest -m '' $(PYTEST_ARGS)
	$(call say,Running the JVM tests on Spark 4.3)
	@MEGAPHONE_TESTS=all ./sbt spark43/test

neutrality-stock: $(VENV_DONE) ## runs Spark's own suites without the plugin, to compare
	$(call say,Running Spark's own suites as they are)
	@MEGAPHONE_NEUTRALITY=stock ./sbt "spark42/testOnly *NeutralitySuite"

demo: setup ## rescales a query over the flights of 2013; executors come, go and are killed
	$(call say,Running the demo)
	@$(VENV)/bin/python -m demo $(if $(ROWS),--rows $(ROWS)) $(if $(KEYS),--keys $(KEYS)) $(DEMO_ARGS)

simulate: $(VENV_DONE) ## runs SCHEDULES seeded schedules against an oracle, from SEED on
	$(call say,Simulating $(SCHEDULES) schedules from seed $(SEED))
	@./sbt "core/Test/runMain io.megaphone.simulation.Simulate $(SCHEDULES) $(SEED)"

soak: setup $(FAULTS_JAR) ## runs many queries for MINUTES, with plans and kills by the dice of SEED
	$(call say,Running queries for $(MINUTES) minutes with seed $(SEED))
	@$(VENV)/bin/python -m soak --minutes $(MINUTES) --seed $(SEED)

pictures: $(BUILT) ## draws the tab for docs/images with a browser: look at the pictures after that
	$(call say,Drawing the tab into docs/images)
	@MEGAPHONE_PICTURES=$(CURDIR)/docs/images $(VENV)/bin/python -m pytest integration-tests/faces \
	  -k browser_draws

bench: setup stores ## measures against Spark's own providers: for hours; BENCH=steady for one
	$(call say,Measuring into benchmarks/results; leave the machine alone meanwhile)
	@for one in $(BENCH); do $(VENV)/bin/python benchmarks/$$one.py $(BENCH_ARGS) || exit 1; done

wheel: $(VENV_DONE) $(JARS_DONE) ## builds the wheel, both jars inside, into dist/
	$(call say,Building the wheel)
	@rm -rf dist
	@$(VENV)/bin/python -m build --wheel --no-isolation --outdir dist

publish-local: $(MAVEN_DONE) ## publishes the jars as Maven artifacts into target/maven
	@echo "For spark-submit, spark-shell, pyspark or start-connect-server.sh, by the version of Spark:"
	@cd $(MAVEN)/io/megaphone && for one in */*; do \
	  echo "  --repositories file://$(CURDIR)/$(MAVEN) --packages io.megaphone:$$(dirname \
	    $$one):$$(basename $$one)"; done

clean: ## removes what was built; keeps .venv and sbt's launcher
	$(call say,Removing what was built)
	@rm -rf target project/target project/project jvm/core/target jvm/spark/target \
	  benchmarks/jvm/target \
	  $(JARS) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse \
	  metastore_db derby.log

# ---- what the targets above are made of ----

# $(call make_venv,folder,what pip installs): a virtual environment with the project in it, as an
# editable install.
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Python 3.11 or later is needed (here: $$($(PYTHON) --version 2>&1 | tail -n 1)):" \
	    "install one, or name one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "Python's venv module is needed: apt-get install python3-venv (other systems" \
	    "bring it with Python)." >&2; exit 1; }
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
	@touch $(1)/.done
endef

define lint_python
	$(call say,Checking the Python sources: format and style and types)
	@$(VENV)/bin/ruff format --check $(PYTHON_SOURCES) $(NOTEBOOKS)
	@$(VENV)/bin/ruff check $(PYTHON_SOURCES) $(NOTEBOOKS)
	@$(VENV)/bin/mypy $(PYTHON_SOURCES)
endef

# Prints what took longest: the parts, and the JVM's suites; pytest has told of its own tests.
SUITE_REPORTS := jvm/core/target/test-reports jvm/spark/target/spark-4.2/test-reports
define tell_times
	@echo "What took longest, in seconds:"
	@awk 'NR > 1 { printf "%6d  %s\n", $$1 - begun, part } \
	  { begun = $$1; $$1 = ""; part = substr($$0, 2) }' $(TIMES) | sort -rn
	@grep -rho '<testsuite [^>]*' $(SUITE_REPORTS) \
	  | sed -E 's/.* name="([^"]*)".* time="([^"]*)".*/\2 \1/' | sort -rn | head -10 \
	  | awk '{ printf "%6d  %s\n", $$1, $$2 }'
endef

$(MAVEN_DONE): $(JAR_SOURCES) | $(VENV_DONE)
	$(call say,Publishing the artifacts for Spark 4.2 and 4.3 into $(MAVEN))
	@rm -rf $(MAVEN)
	@./sbt published42/publish published43/publish
	@touch $(MAVEN_DONE)

ASSEMBLIES := spark42/assembly spark43/assembly

define take_jars
	@rm -rf $(JARS) && mkdir -p $(JARS)
	@cp jvm/spark/target/spark-4.[23]/spark-megaphone_*.jar $(JARS)
	@touch $(JARS_DONE)
endef

$(VENV_DONE): pyproject.toml
	$(call say,Installing the Python dependencies and Spark 4.3 into $(VENV))
	$(call make_venv,$(VENV),--editable '.[dev]')

$(VENV_4_2_DONE): pyproject.toml
	$(call say,Installing the Python dependencies and Spark $(SPARK_4_2) into $(VENV_4_2))
	$(call make_venv,$(VENV_4_2),--editable '.[test]' 'pyspark[connect]==$(SPARK_4_2)')

$(STORES_DONE): target/%/.done: integration-tests/stores/%.xml
	$(call say,Fetching what the tests on $* need beside Spark)
	@rm -rf $(@D)
	@mvn --quiet --batch-mode -Dstyle.color=never -f $< dependency:copy-dependencies \
	  -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

$(FAULTS_JAR): $(JAR_SOURCES) $(FAULTS_SOURCES) | $(VENV_DONE)
	$(call say,Building the jar of the fault points)
	@./sbt spark42/faultsJar
	@touch $(FAULTS_JAR)

$(JARS_DONE): $(JAR_SOURCES) | $(VENV_DONE)
	$(call say,Building the jars for Spark 4.2 and 4.3)
	@./sbt $(ASSEMBLIES)
	$(take_jars)
