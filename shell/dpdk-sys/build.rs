//! Compiles the shim and says what of DPDK is linked.
//!
//! Statically by default, with a chosen list of drivers: faster (the shared libraries cost a table look-up per call),
//! smaller in memory, and no hundred plugins are opened at start.

use std::path::PathBuf;

/// Drivers and the mempool's ring register themselves at start, so nothing refers to them: the whole archive is linked. Who
/// built DPDK may have left some out.
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

/// The same of ethdev: its class of devices, without which none is found by its words.
const CLASSES: &[&str] = &["ethdev"];

/// What the drivers and we call.
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

/// What later versions than the first of [`VERSIONS`] have apart from the environment.
const LATER: &[&str] = &["log", "argparse"];

/// What those need of the system.
const SYSTEM: &[&str] = &["pcap", "xdp", "bpf", "elf", "z", "bsd", "numa", "dl", "m"];

/// The versions whose interface there are bindings of.
const VERSIONS: [&str; 2] = ["22.11", "25.11"];

fn main() {
    println!("cargo:rerun-if-changed=c");
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
    let later = if version == VERSIONS[0] { &[] } else { LATER };
    let libraries = || LIBRARIES.iter().chain(later);
    let mut shim = cc::Build::new();
    shim.file("c/shim.c").flag("-includerte_config.h").flag("-march=corei7").opt_level(3).warnings(true);
    shim.includes(&dpdk.include_paths).compile("sluice_shim");
    let shared = std::env::var_os("CARGO_FEATURE_SHARED").is_some();
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    if shared {
        CLASSES.iter().chain(libraries()).for_each(|lib| println!("cargo:rustc-link-lib=dylib=rte_{lib}"));
        return;
    }
    let libdir = libdir();
    let there = |name: &&&str| libdir.join(format!("librte_{name}.a")).exists();
    println!("cargo:rustc-link-search=native={}", libdir.display());
    for name in DRIVERS.iter().chain(CLASSES).filter(there) {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
    }
    for lib in libraries() {
        println!("cargo:rustc-link-lib=static:-bundle=rte_{lib}");
    }
    for lib in SYSTEM {
        println!("cargo:rustc-link-lib=dylib={lib}");
    }
}

/// Where the archives are.
fn libdir() -> PathBuf {
    pkg_config::get_variable("libdpdk", "libdir").map(PathBuf::from).unwrap_or_default()
}

/// Ends the build with words for whoever started it.
fn fail(why: &str) -> ! {
    panic!(
        "\n\n{why}.\nSluice is built on DPDK {} LTS; on Debian 12: \
         apt-get install libdpdk-dev libxdp-dev libbpf-dev libpcap-dev libnuma-dev\n\n",
        VERSIONS.join(" or ")
    );
}
