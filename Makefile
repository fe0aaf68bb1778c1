# Every target does its own set-up (scripts/setup) and is quick when there is nothing left to do.
# All builds select the whole workspace: one set of features, so the EC2 SDK is compiled once.

# Rust and Go are in target/tools/bin if scripts/setup had to install them. A user's PATH can lack the programs of root.
export PATH := $(CURDIR)/target/tools/bin:$(PATH):/usr/sbin:/sbin

XTASK = $(or $(CARGO_TARGET_DIR),target)/debug/xtask
BUILD = scripts/timed "$(if $(wildcard $(XTASK)),build what has changed,build all programs from nothing)" cargo build --workspace --locked

.PHONY: help bench plots cluster demo docs e2e e2e-suite test test-all test-oldest windows windows-archive interop soak torture fuzz mutants vm-test tidy fmt lint build driver image release release-dry-run publish scan github-release ci shell clean-tools

help: ## Show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## One volume's whole life against the simulated EC2, on real block devices (needs root)
	@scripts/setup demo >/dev/null
	@$(BUILD)
	@scripts/timed "run the demo" $(XTASK) demo

cluster: ## A one-node Kubernetes on this machine with the driver and simulated EC2, until tests/e2e/cluster down (needs root; see docs/dev/e2e.md)
	@scripts/setup e2e >/dev/null
	$(if $(BIN),,@$(BUILD))
	tests/e2e/cluster up

e2e: ## The chart in a real one-node Kubernetes on this machine: the life of volumes, with kills (needs root; see docs/dev/e2e.md; PART="life zones", KUBERNETES=oldest or newest, BIN=DIRECTORY of built programs, REGISTRAR=ours, RELEASE=DIRECTORY of a release)
	@scripts/setup e2e >/dev/null
	$(if $(BIN),,@$(BUILD))
	tests/e2e/run

e2e-suite: ## Kubernetes' own External.Storage tests there (FOCUS='External.Storage.*snapshottable')
	@scripts/setup e2e-suite >/dev/null
	$(if $(BIN),,@$(BUILD))
	tests/e2e/run --suite '$(FOCUS)'

test: ## All tests, csi-sanity included (needs root)
	scripts/test

test-oldest: ## The chart on the API server of the oldest Kubernetes that is supported; building that takes ten minutes of a core the first time
	programs=$$(scripts/setup test) && oldest=$$(scripts/setup oldest) && eval "$$programs" && eval "$$oldest" && \
	  cargo test --workspace --locked --test chart -- real_api_server

test-all: test test-oldest soak vm-test e2e ## The tests, the chart on an old API server, the model test on new seeds, 500 cycles of the node torture, the tests in a virtual machine and on a real Kubernetes
	$(MAKE) torture CYCLES=500

bench: ## Volume lives under load, against the targets; replaces docs/plots (LIVES=500, BENCH_ARGS='--cases steady')
	@scripts/setup build >/dev/null
	@scripts/timed "build release programs" deploy/image/build native ebs-sim xtask
	GIT_COMMIT=$(GIT_COMMIT) $(NATIVE_RELEASE)/xtask bench --plots docs/plots $(BENCH_ARGS)

plots: ## The plots of docs/plots, drawn again from the recorded results of make bench
	@scripts/setup build >/dev/null
	@$(BUILD) --quiet
	$(XTASK) plots

SECONDS ?= 60
soak: ## The model test with new seeds for SECONDS=60; prints the seeds that fail
	@scripts/setup build >/dev/null
	@$(BUILD) --quiet
	$(or $(CARGO_TARGET_DIR),target)/debug/ebs-model --seconds $(SECONDS)

torture: ## The node torture: stage, write, kill -9 and power cuts on real disks for SECONDS=60 or CYCLES=1000 (needs root)
	@scripts/setup test >/dev/null
	@$(BUILD) --quiet
	unshare --mount --propagation private -- $(or $(CARGO_TARGET_DIR),target)/debug/ebs-torture \
	  $(if $(CYCLES),--cycles $(CYCLES),--seconds $(SECONDS))

vm-test: ## The node service on real NVMe disks, in a virtual machine with two kernels (needs root, QEMU; KERNEL=linux-image-... for another one)
	@scripts/setup vm >/dev/null
	@$(BUILD) --quiet
	eval "$$(scripts/setup vm)" && nice -n 10 $(or $(CARGO_TARGET_DIR),target)/debug/ebs-torture vm --kernel "$$EBS_VM_KERNELS" $(VM_ARGS)

windows: ## The programs of Windows nodes: built, linted, and tested under Wine where there is Wine
	scripts/windows

interop: ## Other projects' gRPC clients, unmodified: grpc-go and grpc-core on Linux, csi-proxy's own Go clients under Wine
	scripts/interop

DIST ?= dist
windows-archive: ## What a Windows node gets, as one archive: release programs, installer, samples, checksums (DIST=DIRECTORY)
	scripts/windows-archive $(DIST)

CASES ?= 100000
fuzz: ## What is parsed from outside, by chance: CASES=100000 of each property
	@scripts/setup test >/dev/null
	cargo test --workspace --locked --quiet --no-run --lib
	PROPTEST_CASES=$(CASES) cargo test --workspace --locked --quiet --lib -- fuzz::

mutants: ## Mutation tests of what decides about data on a node; hours (MUTANTS_ARGS="--re 'src/check\.rs'"; needs root)
	scripts/mutants $(MUTANTS_ARGS)

tidy: ## The rules of the code that no compiler and no linter checks
	scripts/tidy

fmt: ## Format all code
	cargo fmt --all

advisories: ## Known security problems of dependencies; needs the network
	scripts/lint advisories

lint: ## Scripts, links, dependencies, and clippy with warnings denied
	scripts/lint
	@scripts/setup build >/dev/null
	cargo clippy --workspace --all-targets --features ebs-windows-node/under-wine --locked -- -D warnings

docs: ## The documentation as a website, in target/site
	scripts/site

build: ## Build everything
	@scripts/setup build >/dev/null
	@$(BUILD)

# Where programs for this machine are that are built as released ones are.
NATIVE_RELEASE = $(patsubst %/,%,$(dir $(shell deploy/image/build --where native)))

# --version prints the commit, so the same commit gives the same program. Other builds leave it empty: a new commit
# then changes nothing that would have to be compiled.
GIT_COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
driver image release release-dry-run: export GIT_COMMIT := $(GIT_COMMIT)
driver image release release-dry-run: export SOURCE_DATE_EPOCH := $(SOURCE_DATE_EPOCH)
driver image release release-dry-run: export BUILD_DATE ?= $(if $(SOURCE_DATE_EPOCH),$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ))
driver: ## The driver's program alone, with its commit in --version
	@scripts/setup build >/dev/null
	deploy/image/build native
	@deploy/image/build --where native

# Machines that image and release are for. The one that is not this machine's is cross-built.
ARCHES ?= amd64 arm64
# Programs that are built already: DRIVERS="amd64=PATH arm64=PATH".
DRIVERS ?=
BUILT = $(or $(DRIVERS),$(foreach arch,$(ARCHES),$(arch)=$(shell deploy/image/build --where $(arch))))

.PHONY: image-programs
image-programs: export ARCHES := $(ARCHES)
image-programs:
	@scripts/setup image >/dev/null
	$(if $(DRIVERS),,@set -e; for arch in $(ARCHES); do scripts/timed "build the driver for $$arch" deploy/image/build $$arch; done)

IMAGE ?= $(or $(CARGO_TARGET_DIR),target)/aws-ebs-csi-driver-image.tar
image: image-programs ## The container image as an archive, without a container daemon (ARCHES="amd64 arm64", IMAGE=FILE)
	eval "$$(ARCHES='$(ARCHES)' scripts/setup image)" && deploy/image/pack $(IMAGE) $(BUILT)

# REGISTRY is the registry and path that the release is for: by default ghcr.io and OWNER/REPO of `repository` in Cargo.toml.
RELEASE ?= $(or $(CARGO_TARGET_DIR),target)/release-files
release: image-programs ## All files of a release: archives, images, chart, bills of materials, notes, checksums (ARCHES, RELEASE=DIRECTORY, REGISTRY)
	eval "$$(ARCHES='$(ARCHES)' scripts/setup image)" && deploy/image/pack --release $(RELEASE) $(BUILT) && deploy/image/check $(RELEASE)

scan: ## Vulnerabilities of a release for which a fix exists; needs the network (RELEASE=DIRECTORY)
	eval "$$(scripts/setup scan)" && for image in $(RELEASE)/*-image-*.tar; do \
	  "$$EBS_GRYPE" --only-fixed --fail-on high "oci-archive:$$image" || exit; done

publish: ## Push, sign and verify a release (RELEASE=DIRECTORY, REGISTRY, KEY=FILE)
	eval "$$(scripts/setup publish)" && deploy/release/publish $(if $(KEY),--key $(KEY)) $(RELEASE)

github-release: ## The release on GitHub, with its files; the tag must exist (RELEASE=DIRECTORY)
	@scripts/setup github >/dev/null
	deploy/release/github $(RELEASE)

release-dry-run: image-programs ## A whole release against a registry of this machine (ARCHES, DRIVERS)
	eval "$$(ARCHES='$(ARCHES)' scripts/setup image)" && eval "$$(scripts/setup publish)" && deploy/release/dry-run $(BUILT)

ci: ## What a change must pass: formatting, clippy, tidy, tests
	.ci/run

shell: ## A Debian container with this repository, in which every target works (needs Docker or Podman; runs on Linux, macOS and Windows)
	@scripts/shell

clean-tools: ## Remove what scripts/setup has installed below target/tools
	rm -rf target/tools
