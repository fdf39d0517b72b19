//! Options of the linker for the daemon.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // Tables of relocations of a few kilobytes in the place of 370, all of which the loader reads at each start. The C
        // library knows this form from version 2.36 on, which is that of Debian 12.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
