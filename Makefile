# The commands of this repository, for people and CI. Each step prints what it does; the first failure stops.
# Commands of more than a line are in scripts/ and `cargo xtask`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run setup test check artillery node go node-asan java java-bench python spark upstreams deploy cluster kubernetes store audit-log loom constant-time miri aarch64 audit bench fuzz fuzz-api publishable dist dist-test

# Tools that setup installs come before the machine's own.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# The library of the Python package is the same for cargo and maturin, which would build its dependencies again.
export PYO3_BUILD_EXTENSION_MODULE := 1

TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
FUZZ_SECONDS ?= 300
MIRI_SECONDS ?= 60
# Benches to run, by the name of their file; all by default.
BENCH ?= *
# Anything but empty: `make run` ends after the demonstration.
ONCE ?=

say = @printf '== %s\n' '$(1)'
comma := ,
# Runs a suite, and prints the seconds that it took. Without make's own variables: cargo would look for its job server.
timed = @SECONDS=0; unset MAKEFLAGS MFLAGS; $(1); printf '== %s: %s s\n' '$(1)' "$$SECONDS"

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build, then show the main job on real input and keep serving (ONCE=1: end after the demonstration)
	@scripts/setup.sh build
	$(call say,build: target/demo/leafseal)
	@cargo build --profile demo --package leafseal-cli --no-default-features
	$(call say,demo: examples/demo.sh)
	@LEAFSEAL='$(TARGET)/demo/leafseal' ONCE='$(ONCE)' examples/demo.sh

setup: ## install what the machine lacks to build and test
	@scripts/setup.sh test

check: setup ## fmt, clippy, tidy and deny, as CI runs them
	@cargo xtask check

# The tests of other languages use the program and the libraries that the Rust tests built: alone, these would be built again with other
# features, and so would xtask.
test: setup ## everything: the checks, all tests with the fuzz corpora, the other languages
	$(call say,build: the Rust workspace and its tests)
	@cargo build --workspace --profile checked --lib --bins --tests --examples
	@tests/cluster/run.sh envoy >/dev/null
	$(call say,test: the checks$(comma) Rust and the other languages)
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=line $(if $(CI),--keep-going) suites

# Twice as many at a time as a small machine has cores, as they wait much: for servers, timeouts and downloads. The longest begin first. A
# suite comes after those that install or build the same packages.
SUITES := $(addprefix suite-of-,rust artillery interop checks python node upstreams go java languages spark browser deploy)
.PHONY: suites conversations $(SUITES)
suites: $(SUITES)
suite-of-go suite-of-node suite-of-java: conversations
suite-of-node: suite-of-artillery
suite-of-upstreams: suite-of-interop
suite-of-java: suite-of-upstreams
suite-of-spark: suite-of-python
suite-of-languages: suite-of-python suite-of-node suite-of-java suite-of-go
suite-of-browser: suite-of-node suite-of-upstreams
OTHER_SUITES := $(filter-out suite-of-rust suite-of-checks,$(SUITES))
$(OTHER_SUITES): export LEAFSEAL := $(TARGET)/checked/leafseal
$(OTHER_SUITES): export WORKSPACE_BUILD := $(TARGET)/checked

suite-of-rust:
	$(call timed,ENVOY="$$(tests/cluster/run.sh envoy)" cargo test --workspace --profile checked $(if $(CI),--no-fail-fast))
	$(call timed,scripts/publishable.sh pack)
# Clippy keeps the folder that `cargo test` needs to itself; by the end of loom, the tests run.
suite-of-checks:
	$(call timed,$(MAKE) --no-print-directory loom)
	$(call timed,$(TARGET)/checked/xtask check)
conversations:
	@source tests/common.sh; WORKSPACE_BUILD='$(TARGET)/checked' generate_conversations
suite-of-spark:
	$(call timed,tests/python/run.sh spark)
$(filter-out suite-of-spark,$(OTHER_SUITES)):
	$(call timed,tests/$(@:suite-of-%=%)/run.sh)

publishable: ## whether the client's and the protocol's packages are complete: a publication without its last step
	$(call say,publish: a dry run of leafseal-errors, leafseal-protocol and leafseal-client)
	@scripts/publishable.sh compile

dist: ## what a release publishes, in target/artifacts: archive, Debian package, symbols, bill of materials, checksums
	@scripts/setup.sh build
	@scripts/setup.sh dist
	@scripts/dist.sh

dist-test: ## install the Debian package of `make dist`, run its services and remove it (as root: under systemd in a container)
	@tests/packaging/run.sh
	@tests/packaging/container.sh

artillery: setup ## the Node packages and Artillery against an engine (FULL=1: the published scenario for its 90 seconds)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/artillery/run.sh

node: setup ## the npm packages: their tests, and each installed into an empty project (RUNS=10 CASES=1000000 OPERATIONS=10000000: longer)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/node/run.sh

java: setup ## the Java packages on each JDK (CASES=1000000 SECONDS_OF_SOAK=300: longer)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/java/run.sh

go: setup ## the Go client: gofmt, go vet, tests under the race detector (FUZZ=60s: fuzzing, too)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/go/run.sh

python: setup ## the Python package: its wheel and its tests (CASES=1000000: longer)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/python/run.sh

spark: setup ## the Python package's functions for Spark, on a local Spark (JDK 17; downloads half a gigabyte once)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/python/run.sh spark

java-bench: ## the JCA provider beside others on each JDK, for most of an hour; writes target/java-bench.json and .svg
	@scripts/setup.sh build
	@bindings/java/bench/run.py --json '$(TARGET)/java-bench.json' --plot '$(TARGET)/java-bench.svg'

node-asan: setup ## the native part of @leafseal/crypto under AddressSanitizer
	$(call say,asan: scripts/node-asan.sh)
	@scripts/node-asan.sh

upstreams: setup ## ambiguous requests through the relay to PHP, Symfony, Express, Flask, Django, Go, Rack, Tomcat …
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/upstreams/run.sh

deploy: setup ## the chart, Envoy's configuration, the Compose file, alert rules and dashboard (UPDATE=1: write generated files)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' tests/deploy/run.sh

cluster: setup ## several engines on one PostgreSQL, behind Envoy: restarts, kills, failover (FULL=1: longer, with figures)
	@tests/cluster/run.sh

kubernetes: setup ## the manifests against a real API server, which is built once, for about 12 minutes
	@scripts/setup.sh kubernetes
	@tests/deploy/kubernetes.sh

store: setup ## edits, kills and a migration of a large keystore (EDITS=100000 KILLS=200 APPS=100000)
	$(call say,store: edits$(comma) kills and a migration)
	@LEAFSEAL_STORE_EDITS=$(or $(EDITS),100000) LEAFSEAL_KILLS=$(or $(KILLS),200) LEAFSEAL_STORE_APPS=$(or $(APPS),100000) \
		cargo test --package leafseal-keystore --profile checked --test it -- --nocapture edits crash scale

audit-log: setup ## edits of an audit log, kills and floods of an engine that writes one, canaries (EDITS=100000 KILLS=300 FLOOD=600 REQUESTS=100000)
	$(call say,audit-log: edits$(comma) kills$(comma) a flood and canaries)
	@LEAFSEAL_AUDIT_EDITS=$(or $(EDITS),100000) cargo test --package leafseal-audit --profile checked --test it -- --nocapture edits
	@LEAFSEAL_AUDIT_KILLS=$(or $(KILLS),300) cargo test --package leafseal-cli --profile checked --test it -- --nocapture no_answered_decryption
	@LEAFSEAL_FLOOD_SECONDS=$(or $(FLOOD),600) cargo test --package leafseal-cli --profile checked --test it -- --nocapture strangers_cannot
	@LEAFSEAL_CANARY_REQUESTS=$(or $(REQUESTS),100000) cargo test --package leafseal-cli --profile checked --test it -- --nocapture canaries

loom: setup ## every interleaving of the pool's threads
	$(call say,loom: leafseal-pool)
	@RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR='$(TARGET)/loom' cargo test --profile checked --package leafseal-pool --lib interleavings

constant-time: setup ## whether branches or addresses depend on secrets, under Valgrind
	$(call say,constant-time: scripts/constant-time.sh)
	@scripts/constant-time.sh

miri: ## undefined behaviour in kernels, pool, protocol and document, each test for MIRI_SECONDS (60)
	$(call say,miri: scripts/miri.sh)
	@scripts/miri.sh '$(MIRI_SECONDS)'

aarch64: setup ## the kernels for AArch64, their tests under QEMU
	$(call say,aarch64: scripts/aarch64.sh)
	@scripts/aarch64.sh

audit: ## all checks of dependencies, known vulnerabilities too (downloads the advisory database, so not part of test)
	@scripts/setup.sh deny
	$(call say,deny: one crypto stack in what ships)
	@cargo deny --all-features --exclude-dev --log-level error check bans
	$(call say,deny: licences and sources and advisories)
	@cargo deny --all-features --log-level error check licenses sources advisories

bench: ## all benches, or BENCH=NAME
	@scripts/setup.sh build
	$(call say,bench: $(BENCH))
	@cargo bench --workspace --bench '$(BENCH)'
	@if [ '$(BENCH)' = '*' ]; then \
	  printf '== bench: the program in process and over mTLS\n'; \
	  cargo build --release --package leafseal-cli; \
	  benches/transports.py --leafseal '$(TARGET)/release/leafseal'; \
	  printf '== bench: an engine end to end\n'; \
	  LEAFSEAL_COMMIT="$$(git rev-parse --short HEAD)" cargo build --release --package leafseal-cli; \
	  '$(TARGET)/release/leafseal' bench; \
	  printf '== bench: small requests beside the worst bodies\n'; \
	  benches/hostile.py --leafseal '$(TARGET)/release/leafseal'; \
	  printf '== bench: requests with an audit log, and reading one\n'; \
	  cargo build --release --package leafseal-audit --example fill_log; \
	  benches/audit.py --program '$(TARGET)/release/leafseal' --fill '$(TARGET)/release/examples/fill_log'; \
	  printf '== bench: a quiet app beside requests that are given up\n'; \
	  benches/given_up.py --leafseal '$(TARGET)/release/leafseal' --rate 5000; \
	  printf '== bench: ports beside silent connections\n'; \
	  LEAFSEAL='$(TARGET)/release/leafseal' tests/interop/run.sh silent; \
	  printf '== bench: the same scenario under Artillery and leafseal load\n'; \
	  LEAFSEAL='$(TARGET)/release/leafseal' PROFILE=release tests/artillery/run.sh compare; \
	fi

fuzz: ## each fuzz target for FUZZ_SECONDS (300)
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh '$(FUZZ_SECONDS)'

fuzz-api: setup ## calls of the HTTPS API made from its own description, for FUZZ_SECONDS (300)
	$(call say,build: the program)
	@cargo build --profile checked --package leafseal-cli
	@LEAFSEAL='$(TARGET)/checked/leafseal' scripts/fuzz-api.sh '$(FUZZ_SECONDS)'
