# Sluice: the common tasks. Each target installs what it needs (scripts/setup prints which packages).

CARGO ?= cargo
PREFIX ?= /usr/local
BIN := target/release

.PHONY: run ovn stop check test test-unit test-system sanitize fuzz compat build clean install uninstall deb guide

# Seconds that `make fuzz` spends on each fuzz target.
FUZZ_SECONDS ?= 300

# Crates with examples in their documentation. Cargo would start rustdoc for every crate, also for those without examples.
DOC_EXAMPLES := ovsdb

build:
	@scripts/setup build
	$(CARGO) build --release --target-dir target -p sluiced -p sluice

run: build
	@scripts/setup run
	@scripts/run

# OVN with three chassis; needs Debian's OVN, which is unmodified.
ovn: build
	@scripts/setup ovn
	@scripts/ovn

stop:
	@scripts/stop

# Installs below PREFIX, or below DESTDIR/PREFIX for packages.
install: build
	@scripts/install "$(PREFIX)"

# Removes what `make install` with the same PREFIX and DESTDIR installed.
uninstall:
	@scripts/uninstall "$(PREFIX)"

# Debian packages in target/deb; see packaging/README.md.
deb: build
	@scripts/setup deb
	@packaging/debian/build

# The guide as HTML in target/guide, with links and spelling checked; needs mdBook.
guide:
	@scripts/setup check
	@scripts/guide/build

# Links our programs under the peer's names, for test harnesses that start a switch by those names.
compat: build
	@mkdir -p target/compat
	@for name in ovs-vswitchd ovsdb-server; do ln -sf ../release/sluiced target/compat/$$name; done
	@for name in ovs-vsctl ovs-ofctl ovs-appctl ovs-dpctl ovsdb-client ovsdb-tool; do ln -sf ../release/sluice target/compat/$$name; done

# Format, lints, models, sanitizer, bindings, documentation, licences.
check:
	@scripts/setup build
	@scripts/setup check
	@scripts/check

test: test-unit test-system

test-unit:
	@scripts/setup build
	$(CARGO) build --workspace --examples -q
	$(CARGO) test --workspace --tests -q
	$(CARGO) test --doc -q $(addprefix -p ,$(DOC_EXAMPLES))

test-system: compat
	@scripts/setup test
	tests/run

# The tests of crates with unsafe code under AddressSanitizer; see docs/sanitizer.md.
sanitize:
	@scripts/setup build
	tests/asan unit

# Coverage-guided fuzzing of every parser of external input; see docs/fuzzing.md.
fuzz:
	@scripts/setup fuzz
	testing/fuzz/run $(FUZZ_SECONDS)

clean: stop
	$(CARGO) clean
