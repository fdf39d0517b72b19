//! The cores that have a PMD thread.

use std::collections::{BTreeMap, BTreeSet};
use units::{CoreId, NumaId};

/// Number of PMD threads of each NUMA node if no mask is set.
const PER_NODE: usize = 1;

/// Core numbers in a mask are below this; higher bits of the mask are ignored. The limit is far above the
/// number of cores of any machine, and bounds the memory for a long mask.
const CORES_MAX: u32 = 1 << 16;

/// A core and its NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Core {
    /// Core number.
    pub id: CoreId,
    /// Its NUMA node.
    pub numa: NumaId,
}

/// The cores of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    cores: BTreeMap<CoreId, NumaId>,
    /// The other hyperthread of each core that has one.
    siblings: BTreeMap<CoreId, CoreId>,
}

impl FromIterator<Core> for Topology {
    fn from_iter<I: IntoIterator<Item = Core>>(cores: I) -> Topology {
        let cores = cores.into_iter().map(|c| (c.id, c.numa)).collect();
        Topology { cores, siblings: BTreeMap::new() }
    }
}

impl Topology {
    /// Parses a comma-separated list with the NUMA node of each core: tests describe a machine with it. `None` if an item
    /// is not a number.
    pub fn parse(text: &str) -> Option<Topology> {
        let node =
            |(i, text): (usize, &str)| Some(Core { id: CoreId(i as u32), numa: NumaId(text.parse().ok()?) });
        text.split(',').filter(|t| !t.is_empty()).enumerate().map(node).collect()
    }

    /// Sets the pairs of cores that are hyperthreads of the same physical core.
    pub fn with_siblings(mut self, pairs: impl IntoIterator<Item = (CoreId, CoreId)>) -> Topology {
        self.siblings = pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        self
    }

    /// The other hyperthread of the same physical core.
    pub fn sibling(&self, core: CoreId) -> Option<CoreId> {
        self.siblings.get(&core).copied()
    }

    /// All cores, ordered by number.
    pub fn cores(&self) -> impl Iterator<Item = Core> {
        self.cores.iter().map(|(id, numa)| Core { id: *id, numa: *numa })
    }

    /// The number of cores of each NUMA node.
    pub fn nodes(&self) -> BTreeMap<NumaId, usize> {
        per_node(self.cores())
    }
}

/// Counts the cores on each NUMA node.
pub fn per_node(cores: impl Iterator<Item = Core>) -> BTreeMap<NumaId, usize> {
    let mut nodes = BTreeMap::new();
    cores.for_each(|c| *nodes.entry(c.numa).or_insert(0) += 1);
    nodes
}

/// The cores that get a PMD thread, and warnings about the mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectedCores {
    /// The cores, ordered by number.
    pub cores: Vec<Core>,
    /// Warnings about the mask, for the log.
    pub warnings: Vec<String>,
}

/// Returns the cores that `pmd-cpu-mask` selects. The mask is a hexadecimal number of any length, with or without `0x`.
/// Without a mask, one core of each NUMA node is selected. If the mask selects no existing core, no core polls, as in
/// Open vSwitch: cores that the administrator did not select are not used.
pub fn wanted(topology: &Topology, mask: Option<&str>) -> SelectedCores {
    let mut warnings = Vec::new();
    let Some(mask) = mask.filter(|m| !m.is_empty()) else {
        return SelectedCores { cores: default_cores(topology), warnings };
    };
    let named = set_bits(mask, &mut warnings);
    let cores: Vec<Core> = topology.cores().filter(|c| named.contains(&c.id.0)).collect();
    if cores.is_empty() {
        warnings.push(format!("pmd-cpu-mask '{mask}' names no core of this machine: no port is polled"));
    }
    SelectedCores { cores, warnings }
}

/// The first core of each NUMA node.
fn default_cores(topology: &Topology) -> Vec<Core> {
    let mut taken: BTreeMap<NumaId, usize> = BTreeMap::new();
    let mut first = |c: &Core| {
        let n = taken.entry(c.numa).or_insert(0);
        *n += 1;
        *n <= PER_NODE
    };
    topology.cores().filter(|c| first(c)).collect()
}

/// The numbers of the bits that are set in the mask. A character that is not a hexadecimal digit counts as zero.
fn set_bits(mask: &str, warnings: &mut Vec<String>) -> BTreeSet<u32> {
    let digits = mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X")).unwrap_or(mask);
    let mut set = BTreeSet::new();
    for (digit, base) in digits.chars().rev().zip((0..CORES_MAX).step_by(4)) {
        let value = digit.to_digit(16).unwrap_or_else(|| {
            warnings.push(format!("Invalid cpu mask: {digit}"));
            0
        });
        set.extend((0..4).filter(|bit| value >> bit & 1 == 1).map(|bit| base + bit));
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(numa: &str, mask: Option<&str>) -> Vec<(u32, u32)> {
        let topology = Topology::parse(numa).unwrap();
        wanted(&topology, mask).cores.iter().map(|c| (c.id.0, c.numa.0)).collect()
    }

    #[test]
    fn without_a_mask_one_core_of_each_node_polls() {
        assert_eq!(cores("0,0,0,0", None), [(0, 0)]);
        assert_eq!(cores("0,0,0,1,1,8,8", None), [(0, 0), (3, 1), (5, 8)]);
        assert_eq!(cores("1,1,0,0", Some("")), [(0, 1), (2, 0)]);
    }

    #[test]
    fn a_mask_names_cores_in_hexadecimal() {
        assert_eq!(cores("0,0,0,0", Some("0x3")), [(0, 0), (1, 0)]);
        assert_eq!(cores("1,1,0,0", Some("c")), [(2, 0), (3, 0)]);
        assert_eq!(cores("1,1,0,0", Some("0X00000000000000000000000000000000f")).len(), 4);
        // Bits of cores that do not exist are ignored.
        assert_eq!(cores("0,0", Some("fe")), [(1, 0)]);
    }

    #[test]
    fn a_mask_without_usable_core_gives_no_poll_thread_and_a_warning() {
        let topology = Topology::parse("0,0").unwrap();
        for mask in ["0", "f0", "zz"] {
            let wanted = wanted(&topology, Some(mask));
            assert_eq!(wanted.cores, []);
            assert!(wanted.warnings.last().unwrap().contains("names no core"), "{wanted:?}");
        }
        assert_eq!(wanted(&topology, Some("z1")).warnings, ["Invalid cpu mask: z"]);
    }

    #[test]
    fn a_long_mask_is_bounded() {
        let topology = Topology::parse("0,0").unwrap();
        assert_eq!(wanted(&topology, Some(&"f".repeat(1_000_000))).cores.len(), 2);
    }
}
