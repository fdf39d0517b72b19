# Sluice: the everyday verbs. Each does its own set-up (scripts/setup says what it installs).

CARGO ?= cargo
PREFIX ?= /usr/local
BIN := target/release

.PHONY: run stop check test test-unit test-system sanitize fuzz compat build clean install uninstall

# How long `make fuzz` stays with each target.
FUZZ_SECONDS ?= 300

build:
	@scripts/setup build
	$(CARGO) build --release --target-dir target -p sluiced -p sluice

run: build
	@scripts/setup run
	@scripts/run

stop:
	@scripts/stop

# Below PREFIX, or DESTDIR/PREFIX for packages.
install: build
	@scripts/install "$(PREFIX)"

# What `make install` with the same PREFIX and DESTDIR put there.
uninstall:
	@scripts/uninstall "$(PREFIX)"

# Our programs under the peer's names, for harnesses that start a switch by them.
compat: build
	@mkdir -p target/compat
	@for name in ovs-vswitchd ovsdb-server; do ln -sf ../release/sluiced target/compat/$$name; done
	@for name in ovs-vsctl ovs-ofctl ovs-appctl ovs-dpctl ovsdb-client ovsdb-tool; do ln -sf ../release/sluice target/compat/$$name; done

# Format, lints, models, bindings, documentation, licences.
check:
	@scripts/setup build
	@scripts/setup check
	@scripts/check

test: test-unit test-system

test-unit:
	@scripts/setup build
	$(CARGO) test --workspace -q

test-system: compat
	@scripts/setup test
	tests/run

# The tests of crates with unsafe code under AddressSanitizer; see docs/sanitizer.md.
sanitize:
	@scripts/setup build
	tests/asan unit

# Every reader of outside bytes, led by coverage; see docs/fuzzing.md.
fuzz:
	@scripts/setup fuzz
	testing/fuzz/run $(FUZZ_SECONDS)

clean: stop
	$(CARGO) clean
