//! Finds and maps the shared object that holds DPDK, and enters its functions in the table of `c/calls.S`.
//!
//! A switch without DPDK (`dpdk-init`) never maps it. See docs/adr/0034.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files' names; see build.rs.
const OBJECT: &str = "libsluice-dpdk.so";
const LCORE_OBJECT: &str = "libsluice-lcore.so";
/// The function of the shared object that returns its build.
const BUILD: &CStr = c"sluice_dpdk_build";
/// Resolve every symbol at once (dlopen(3)), so that a missing library is an error of `load` and not the end of the
/// process later.
const RTLD_NOW: c_int = 2;
/// Later objects find this one's symbols first (dlopen(3)).
const RTLD_GLOBAL: c_int = 0x100;

/// The functions of the bindings, in the order of their slots.
const NAMES: [&CStr; include!(concat!(env!("OUT_DIR"), "/names.in")).len()] =
    include!(concat!(env!("OUT_DIR"), "/names.in"));

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(object: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    /// The table of `c/calls.S`.
    static sluice_dpdk_slots: [AtomicPtr<c_void>; NAMES.len()];
}

/// The version of DPDK with which this crate was built, for example `22.11.11`.
pub const VERSION: &str = env!("DPDK_VERSION");

/// The function to which every slot of the table points before `load`.
#[unsafe(no_mangle)]
extern "C" fn sluice_dpdk_absent() -> ! {
    // A panic in a function of this ABI ends the process, after its message.
    panic!("a function of DPDK is called before DPDK is loaded");
}

/// Maps the shared object. Every later call returns the result of the first.
///
/// Must have succeeded before any function of the bindings is called.
pub fn load() -> Result<(), String> {
    static RESULT: OnceLock<Result<(), String>> = OnceLock::new();
    RESULT.get_or_init(find_and_map).clone()
}

fn find_and_map() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program's folder: {e}"))?;
    let candidates = candidates(&program);
    let Some(path) = candidates.iter().find(|path| path.exists()) else {
        let names: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        return Err(format!("DPDK is not installed: there is no {}", names.join(" and no ")));
    };
    map(path)
}

/// Where the shared object may be: beside the program, in `lib/sluice` of the prefix that the program is installed below,
/// and for Cargo's tests one folder above.
fn candidates(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(Path::new("/"));
    let above = folder.parent().unwrap_or(folder);
    let mut found = vec![folder.join(OBJECT)];
    match folder.ends_with("deps") {
        true => found.push(above.join(OBJECT)),
        false => found.push(above.join("lib/sluice").join(OBJECT)),
    }
    found
}

fn map_object(path: &Path, flags: c_int) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| "a path with a zero byte".to_owned())?;
    // SAFETY: a C string. The constructors of DPDK, which run now, only fill its lists of drivers and log types.
    let object = unsafe { dlopen(name.as_ptr(), flags) };
    match object.is_null() {
        true => Err(format!("cannot load DPDK: {}", last_error())),
        false => Ok(object),
    }
}

/// Maps the object at `path` and, before it, the object beside it that defines two thread-local variables of DPDK
/// (c/lcore.c).
fn map(path: &Path) -> Result<(), String> {
    map_object(&path.with_file_name(LCORE_OBJECT), RTLD_NOW | RTLD_GLOBAL)?;
    let object = map_object(path, RTLD_NOW)?;
    // SAFETY: a mapped object and a C string.
    let build = unsafe { dlsym(object, BUILD.as_ptr()) };
    let other =
        || format!("{} belongs to another build of this program (start the switch again)", path.display());
    if build.is_null() {
        return Err(other());
    }
    // SAFETY: `c/shim.c` defines the function with this signature.
    let build: extern "C" fn() -> *const c_char = unsafe { core::mem::transmute(build) };
    // SAFETY: the function returns a static C string.
    if unsafe { CStr::from_ptr(build()) }.to_bytes() != env!("DPDK_BUILD").as_bytes() {
        return Err(other());
    }
    for (number, name) in NAMES.iter().enumerate() {
        // SAFETY: a mapped object and a C string.
        let function = unsafe { dlsym(object, name.as_ptr()) };
        if function.is_null() {
            return Err(format!("cannot load DPDK: {}", last_error()));
        }
        // SAFETY: `c/calls.S` defines the table, in writable memory, with a slot for each name. Its jumps read a slot with
        // one aligned load.
        unsafe { &sluice_dpdk_slots[number] }.store(function, Ordering::Release);
    }
    Ok(())
}

fn last_error() -> String {
    // SAFETY: returns null or a C string that is valid until this thread's next call of these functions.
    let text = unsafe { dlerror() };
    match text.is_null() {
        true => "unknown error".to_owned(),
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_the_program_or_in_its_prefix() {
        let found = candidates(Path::new("/usr/sbin/sluiced"));
        assert_eq!(
            found,
            [Path::new("/usr/sbin/libsluice-dpdk.so"), Path::new("/usr/lib/sluice/libsluice-dpdk.so")]
        );
        let found = candidates(Path::new("/x/target/debug/deps/dpdk-1"));
        assert_eq!(found[1], Path::new("/x/target/debug/libsluice-dpdk.so"));
    }

    #[test]
    fn a_file_that_is_no_object_is_an_error() {
        let file = std::env::temp_dir().join(format!("sluice-no-object-{}", std::process::id()));
        std::fs::write(&file, b"text").unwrap();
        let result = map_object(&file, RTLD_NOW);
        std::fs::remove_file(&file).unwrap();
        assert!(result.is_err_and(|text| text.starts_with("cannot load DPDK: ")));
    }

    #[test]
    fn functions_are_there_after_loading() {
        load().unwrap();
        // SAFETY: returns a static C string.
        let version = unsafe { CStr::from_ptr(crate::rte_version()) };
        assert_eq!(version.to_str(), Ok(format!("DPDK {VERSION}").as_str()));
    }
}
