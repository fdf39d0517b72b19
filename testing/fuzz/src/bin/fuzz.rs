//! Searches for inputs that make a target fail: libFuzzer with the target named by `FUZZ_TARGET`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<&'static fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz::find(&name).unwrap_or_else(|| {
        let names: Vec<&str> = fuzz::TARGETS.iter().map(|t| t.name).collect();
        eprintln!("FUZZ_TARGET has to be one of: {}", names.join(" "));
        std::process::exit(2)
    })
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
