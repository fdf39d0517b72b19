//! Which cores have a poll thread.

use std::collections::{BTreeMap, BTreeSet};
use units::{CoreId, NumaId};

/// Without a mask each NUMA node has so many poll threads.
const PER_NODE: usize = 1;

/// The largest core that a mask may name: far above what machines have, and a bound for what a text can ask of memory.
const CORES_MAX: u32 = 1 << 16;

/// A core and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Core {
    /// Its number.
    pub id: CoreId,
    /// Its NUMA node.
    pub numa: NumaId,
}

/// The cores of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    cores: BTreeMap<CoreId, NumaId>,
    /// The other hyperthread of each, where it has one.
    siblings: BTreeMap<CoreId, CoreId>,
}

impl FromIterator<Core> for Topology {
    fn from_iter<I: IntoIterator<Item = Core>>(cores: I) -> Topology {
        let cores = cores.into_iter().map(|c| (c.id, c.numa)).collect();
        Topology { cores, siblings: BTreeMap::new() }
    }
}

impl Topology {
    /// As a test describes it: the node of each core, separated by commas. `None` where one is no number.
    pub fn parse(text: &str) -> Option<Topology> {
        let node =
            |(i, text): (usize, &str)| Some(Core { id: CoreId(i as u32), numa: NumaId(text.parse().ok()?) });
        text.split(',').filter(|t| !t.is_empty()).enumerate().map(node).collect()
    }

    /// Of these pairs each is the other's hyperthread.
    pub fn with_siblings(mut self, pairs: impl IntoIterator<Item = (CoreId, CoreId)>) -> Topology {
        self.siblings = pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        self
    }

    /// The other hyperthread of a core's processor core.
    pub fn sibling(&self, core: CoreId) -> Option<CoreId> {
        self.siblings.get(&core).copied()
    }

    /// All cores, by number.
    pub fn cores(&self) -> impl Iterator<Item = Core> {
        self.cores.iter().map(|(id, numa)| Core { id: *id, numa: *numa })
    }

    /// How many cores each node has.
    pub fn nodes(&self) -> BTreeMap<NumaId, usize> {
        per_node(self.cores())
    }
}

/// How many of these cores each node has.
pub fn per_node(cores: impl Iterator<Item = Core>) -> BTreeMap<NumaId, usize> {
    let mut nodes = BTreeMap::new();
    cores.for_each(|c| *nodes.entry(c.numa).or_insert(0) += 1);
    nodes
}

/// Which cores are to poll, and what is to be said about the mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// By number.
    pub cores: Vec<Core>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// The cores that `pmd-cpu-mask` asks for: hexadecimal, as long as one likes, `0x` in front or not. Without a mask, one on
/// each node. Where it names no core that there is, nothing polls, as with Open vSwitch: cores that nobody offered are not
/// taken.
pub fn wanted(topology: &Topology, mask: Option<&str>) -> Wanted {
    let mut warnings = Vec::new();
    let Some(mask) = mask.filter(|m| !m.is_empty()) else {
        return Wanted { cores: default(topology), warnings };
    };
    let named = bits(mask, &mut warnings);
    let cores: Vec<Core> = topology.cores().filter(|c| named.contains(&c.id.0)).collect();
    if cores.is_empty() {
        warnings.push(format!("pmd-cpu-mask '{mask}' names no core of this machine: no port is polled"));
    }
    Wanted { cores, warnings }
}

fn default(topology: &Topology) -> Vec<Core> {
    let mut taken: BTreeMap<NumaId, usize> = BTreeMap::new();
    let mut first = |c: &Core| {
        let n = taken.entry(c.numa).or_insert(0);
        *n += 1;
        *n <= PER_NODE
    };
    topology.cores().filter(|c| first(c)).collect()
}

/// The numbers of the bits that are set. What is no hexadecimal digit counts as zero.
fn bits(mask: &str, warnings: &mut Vec<String>) -> BTreeSet<u32> {
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
        // Cores that there are not are nobody's.
        assert_eq!(cores("0,0", Some("fe")), [(1, 0)]);
    }

    #[test]
    fn with_a_mask_without_a_usable_core_nothing_polls_and_that_is_told() {
        let topology = Topology::parse("0,0").unwrap();
        for mask in ["0", "f0", "zz"] {
            let wanted = wanted(&topology, Some(mask));
            assert_eq!(wanted.cores, []);
            assert!(wanted.warnings.last().unwrap().contains("names no core"), "{wanted:?}");
        }
        assert_eq!(wanted(&topology, Some("z1")).warnings, ["Invalid cpu mask: z"]);
    }

    #[test]
    fn a_long_text_is_bounded() {
        let topology = Topology::parse("0,0").unwrap();
        assert_eq!(wanted(&topology, Some(&"f".repeat(1_000_000))).cores.len(), 2);
    }
}
