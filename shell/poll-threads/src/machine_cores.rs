//! The cores of the machine: read from sysfs, or as a test describes them.

use pmd::{Core, Topology};
use runtime::Module;
use std::path::Path;
use units::{CoreId, NumaId};

static LOG: Module = Module::new("ovs_numa");

/// The number after a prefix, as in `node0` and `cpu12`.
fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// The numbers of the entries of a folder whose names begin with `prefix`.
fn numbers(folder: &Path, prefix: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| number(e.file_name().to_str()?, prefix)).collect()
}

/// The cores that sysfs lists. Without NUMA all cores are on node 0.
fn discover(system: &Path) -> Topology {
    let online = |core: &u32| system.join(format!("cpu/cpu{core}/topology/core_id")).exists();
    let cores = |folder: &Path, numa: u32| -> Vec<Core> {
        let ids = numbers(folder, "cpu").into_iter().filter(online);
        ids.map(|id| Core { id: CoreId(id), numa: NumaId(numa) }).collect()
    };
    let nodes = system.join("node");
    let all: Topology = match nodes.exists() {
        false => cores(&system.join("cpu"), 0).into_iter().collect(),
        true => numbers(&nodes, "node")
            .into_iter()
            .flat_map(|n| cores(&nodes.join(format!("node{n}")), n))
            .collect(),
    };
    let siblings_of = |core: Core| {
        let list = system.join(format!("cpu/cpu{}/topology/thread_siblings_list", core.id.0));
        parse_pair(&std::fs::read_to_string(list).ok()?)
    };
    let pairs: Vec<(CoreId, CoreId)> = all.cores().filter_map(siblings_of).collect();
    all.with_siblings(pairs)
}

/// The two hyperthreads that a list names, as in `2,34` and `2-3`.
fn parse_pair(list: &str) -> Option<(CoreId, CoreId)> {
    let (a, b) = list.trim().split_once([',', '-'])?;
    Some((CoreId(a.parse().ok()?), CoreId(b.parse().ok()?)))
}

/// The cores of this machine; logs their number. `described`: the cores of a simulated machine, for tests.
pub fn topology(described: Option<&Topology>) -> Topology {
    let topology = described.cloned().unwrap_or_else(|| discover(Path::new("/sys/devices/system")));
    let nodes = topology.nodes();
    for (numa, n) in &nodes {
        runtime::info!(LOG, "Discovered {n} CPU cores on NUMA node {}", numa.0);
    }
    let cores = topology.cores().count();
    runtime::info!(LOG, "Discovered {} NUMA nodes and {cores} CPU cores", nodes.len());
    topology
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cores_and_nodes() {
        assert_eq!(
            (number("cpu12", "cpu"), number("cpufreq", "cpu"), number("node1", "node")),
            (Some(12), None, Some(1))
        );
    }

    #[test]
    fn hyperthreads() {
        let parse_pair = |list| parse_pair(list).map(|(a, b)| (a.0, b.0));
        assert_eq!(
            (parse_pair("2,34\n"), parse_pair("2-3"), parse_pair("7"), parse_pair("0-3,8")),
            (Some((2, 34)), Some((2, 3)), None, None)
        );
    }

    #[test]
    fn this_machine_has_cores() {
        assert!(discover(Path::new("/sys/devices/system")).cores().count() > 0);
        assert_eq!(discover(Path::new("/nowhere")), Topology::default());
    }
}
