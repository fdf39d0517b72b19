//! Options of the linker for the daemon.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=small-switch.ld");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // Relocation tables of a few kilobytes instead of 370: the loader reads all of them at each start. The C
        // library knows this form from version 2.36 on, which is that of Debian 12.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        // The kernel maps 16 pages of code at a time. Functions that a small switch executes are a quarter of the code, so
        // they stand together. A name that no longer exists has no effect.
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{folder}/small-switch.ld");
    }
}
