//! Builds the shared object that holds DPDK, and the functions through which the program calls it.
//!
//! The program starts without DPDK: a switch with only kernel ports needs neither DPDK's 6 MB of code, nor its constructors,
//! nor the twenty libraries that it depends on (docs/adr/0034). `library::load` maps the shared object when `dpdk-init` asks
//! for it. By default the shared object contains DPDK's static libraries and a chosen list of drivers. So DPDK does not open
//! a hundred plugins, and calls between its libraries go through no table.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The drivers, and the ring of mempools. They register themselves at start, and nothing refers to them, so their archives
/// are linked as a whole. The build of DPDK may lack some.
const DRIVERS: &[&str] = &[
    "bus_pci",
    "bus_vdev",
    "common_iavf",
    "mempool_ring",
    "net_af_packet",
    "net_af_xdp",
    "net_e1000",
    "net_i40e",
    "net_iavf",
    "net_ice",
    "net_ixgbe",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_tap",
    "net_virtio",
];

/// Libraries that are linked as a whole for the same reason: ethdev registers a class of devices, without which no device is
/// found by its arguments.
const CLASSES: &[&str] = &["ethdev"];

/// Libraries that the drivers and the bindings call.
const LIBRARIES: &[&str] = &[
    "vhost",
    "gso",
    "ip_frag",
    "security",
    "cryptodev",
    "dmadev",
    "hash",
    "rcu",
    "timer",
    "net",
    "mbuf",
    "mempool",
    "meter",
    "pci",
    "ring",
    "telemetry",
    "eal",
    "kvargs",
];

/// Libraries that only versions after the first of [`VERSIONS`] have.
const LATER: &[&str] = &["log", "argparse"];

/// System libraries that DPDK's libraries need.
const SYSTEM: &[&str] = &["pcap", "xdp", "bpf", "elf", "z", "bsd", "numa", "dl", "m"];

/// The versions of DPDK for which there are bindings.
const VERSIONS: [&str; 2] = ["22.11", "25.11"];

/// The files that the program looks for at run time; see src/library.rs.
const OBJECT: &str = "libsluice-dpdk.so";
const LCORE_OBJECT: &str = "libsluice-lcore.so";
/// The thread-local variables of DPDK that [`LCORE_OBJECT`] defines instead of DPDK.
const LCORE: &str = "per_lcore__lcore_id; per_lcore__rte_errno";

fn main() {
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let found = pkg_config::Config::new().cargo_metadata(false).env_metadata(false).probe("libdpdk");
    let Ok(dpdk) = found else { fail("DPDK's development files are missing") };
    let Some(version) = VERSIONS.into_iter().find(|v| dpdk.version.starts_with(&format!("{v}."))) else {
        fail(&format!(
            "found DPDK {}, but there are bindings for {} alone",
            dpdk.version,
            VERSIONS.join(" and ")
        ))
    };
    println!("cargo:rustc-check-cfg=cfg(dpdk, values({}))", VERSIONS.map(|v| format!("\"{v}\"")).join(", "));
    println!("cargo:rustc-cfg=dpdk=\"{version}\"");
    println!("cargo:rustc-env=DPDK_VERSION={}", dpdk.version);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let bindings = fs::read_to_string(format!("src/v{}/bindings.rs", version.replace('.', "_")));
    let bindings = bindings.expect("committed bindings");
    let names = functions(&bindings);
    let build = build_id(&bindings, &dpdk.version);
    println!("cargo:rustc-env=DPDK_BUILD={build}");
    write_names(&out, &names);
    let mut calls = cc::Build::new();
    calls.file("c/calls.S").include(&out).compile("sluice_calls");
    put_beside_the_program(&link_lcore(&out, &dpdk));
    put_beside_the_program(&link(&out, &dpdk, version, &names, &build));
}

/// Copies an object from the folder of this script, `<target>/<profile>/build/<crate>/out`, to `<target>/<profile>`.
fn put_beside_the_program(object: &Path) {
    let folder = object.ancestors().nth(4).expect("five folders deep");
    let beside = folder.join(object.file_name().expect("a file"));
    // The old file is removed, not overwritten: a running switch has it mapped.
    let _ = fs::remove_file(&beside);
    let copied = fs::copy(object, &beside).and_then(|_| set_build_script_time(&beside));
    copied.unwrap_or_else(|e| fail(&format!("cannot write {}: {e}", beside.display())));
    println!("cargo:rerun-if-changed={}", beside.display());
}

/// Sets the modification time of a copy to the time when this build script was built. Cargo runs the script again if a file
/// that the script names has changed since the script started. The script names its copies, so that a deleted copy is made
/// again; with its real time each copy would count as changed.
fn set_build_script_time(copy: &Path) -> std::io::Result<()> {
    let built = fs::metadata(env::current_exe()?)?.modified()?;
    fs::File::options().append(true).open(copy)?.set_modified(built)
}

/// The names of the functions that the bindings declare, in their order.
fn functions(bindings: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_extern = false;
    for line in bindings.lines() {
        match line.trim() {
            "unsafe extern \"C\" {" => is_extern = true,
            "}" => is_extern = false,
            text if is_extern => {
                let name = text.strip_prefix("pub fn ").and_then(|rest| rest.split_once('('));
                names.extend(name.map(|(name, _)| name));
            }
            _ => {}
        }
    }
    names
}

/// Identifies a build: program and shared object refuse each other if it differs.
fn build_id(bindings: &str, version: &str) -> String {
    let mut hash = DefaultHasher::new();
    bindings.hash(&mut hash);
    fs::read("c/shim.c").expect("a file of this crate").hash(&mut hash);
    format!("{}-{version}-{:016x}", env::var("CARGO_PKG_VERSION").expect("set by cargo"), hash.finish())
}

/// Writes the names for c/calls.S, for src/library.rs, and as the linker's list of what the shared object exports.
fn write_names(out: &Path, names: &[&str]) {
    let (mut calls, mut list, mut exported) =
        (String::new(), "[".to_owned(), "{ global: sluice_dpdk_build;\n".to_owned());
    for (number, name) in names.iter().enumerate() {
        let _ = writeln!(calls, "CALL({number}, {name})");
        let _ = writeln!(list, "c\"{name}\",");
        let _ = writeln!(exported, "{name};");
    }
    for (file, text) in
        [("names.h", calls), ("names.in", list + "]"), ("exported", exported + LCORE + "; local: *; };\n")]
    {
        fs::write(out.join(file), text).expect("cargo's folder is writable");
    }
}

/// The compiler of the C files of this crate, with the options for a shared object.
fn compiler(dpdk: &pkg_config::Library) -> cc::Build {
    let mut compiler = cc::Build::new();
    compiler.flag("-includerte_config.h").opt_level(3).warnings(true).cargo_metadata(false);
    // The shared objects have no undefined symbols, so a sanitizer of the program cannot be linked to them.
    compiler.pic(true).flag("-fno-sanitize=address");
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        compiler.flag("-march=corei7");
    }
    compiler.includes(&dpdk.include_paths);
    compiler
}

/// Starts the linker's command line for a shared object.
fn linker(compiler: &cc::Build, object: &str) -> Command {
    let mut linker = Command::new(compiler.get_compiler().path());
    linker.args(["-shared", "-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-O1", "-Wl,--as-needed"]);
    linker.arg(format!("-Wl,-soname,{object}"));
    linker
}

fn run(mut linker: Command, object: PathBuf) -> PathBuf {
    let output = linker.arg("-o").arg(&object).output();
    let output = output.unwrap_or_else(|e| fail(&format!("cannot start the linker: {e}")));
    if !output.status.success() {
        fail(&format!("DPDK cannot be linked:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    object
}

/// Links the object with two thread-local variables of DPDK; `c/lcore.c` explains why.
fn link_lcore(out: &Path, dpdk: &pkg_config::Library) -> PathBuf {
    let mut compiler = compiler(dpdk);
    let objects = compiler.file("c/lcore.c").compile_intermediates();
    let mut linker = linker(&compiler, LCORE_OBJECT);
    linker.args(objects);
    run(linker, out.join(LCORE_OBJECT))
}

/// Links the shared object: the shim, and DPDK or, with feature `shared`, references to its shared libraries.
fn link(out: &Path, dpdk: &pkg_config::Library, version: &str, names: &[&str], build: &str) -> PathBuf {
    let later = if version == VERSIONS[0] { &[] } else { LATER };
    let libraries = || LIBRARIES.iter().chain(later);
    let mut shim = compiler(dpdk);
    // If one access to a variable uses this model, GNU ld uses it for all accesses to the variable, also in DPDK's archives.
    shim.flag("-ftls-model=initial-exec");
    shim.file("c/shim.c").define("SLUICE_DPDK_BUILD", format!("\"{build}\"").as_str());
    let objects = shim.compile_intermediates();
    let mut linker = linker(&shim, OBJECT);
    linker.arg("-Wl,--gc-sections");
    linker.arg(prefixed("-Wl,--version-script=", &out.join("exported")));
    for name in names {
        linker.arg(format!("-Wl,-u,{name}"));
    }
    linker.args(objects);
    linker.args(dpdk.link_paths.iter().map(|path| prefixed("-L", path)));
    if env::var_os("CARGO_FEATURE_SHARED").is_some() {
        linker.args(CLASSES.iter().chain(libraries()).map(|lib| format!("-lrte_{lib}")));
    } else {
        let libdir = pkg_config::get_variable("libdpdk", "libdir").map(PathBuf::from).unwrap_or_default();
        let archive = |name: &&str| libdir.join(format!("librte_{name}.a"));
        linker.arg("-Wl,--whole-archive");
        linker.args(DRIVERS.iter().chain(CLASSES).map(archive).filter(|path| path.exists()));
        linker.args(["-Wl,--no-whole-archive", "-Wl,--start-group"]);
        linker.args(libraries().map(archive));
        linker.arg("-Wl,--end-group").args(SYSTEM.iter().map(|lib| format!("-l{lib}")));
    }
    run(linker, out.join(OBJECT))
}

fn prefixed(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    text.push(path);
    text
}

/// Ends the build with a message for the user.
fn fail(why: &str) -> ! {
    panic!(
        "\n\n{why}.\nSluice is built on DPDK {} LTS; on Debian 12: \
         apt-get install libdpdk-dev libxdp-dev libbpf-dev libpcap-dev libnuma-dev\n\n",
        VERSIONS.join(" or ")
    );
}
