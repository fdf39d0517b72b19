//! Linker options for the daemon.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=small-switch.ld");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // Packed relocation tables have a few KB instead of 370 KB. The loader reads them completely at each start. The C library
        // supports the packed form from version 2.36 on, which is in Debian 12.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        // The kernel maps 16 pages of code at a time. A small switch executes only a quarter of the code, so the linker script places
        // the functions of this quarter next to each other. A name in the script that no longer exists has no effect.
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{folder}/small-switch.ld");
    }
}
