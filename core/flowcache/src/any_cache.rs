//! The cache kind: selected by name at run time, and matched once per batch, not per packet.

use crate::bucket::{Narrow, Wide};
use crate::unified::{MAX_BUCKETS, MIN_BUCKETS};
use crate::{Cd, Dfc, Emc, FlowCache, NoCache, Smc, Unified, WithEmc, cd, dfc, smc};
use cpu::Advise;
use units::Millis;

/// The kind of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// [`Unified`].
    #[default]
    Unified,
    /// EMC and SMC, each only if its setting enables it.
    Ovs,
    /// An EMC with one candidate entry for each flow.
    Emc1,
    /// An EMC of 16,384 entries with one candidate entry for each flow.
    Emc1Large,
    /// An EMC with two candidate entries for each flow.
    Emc2,
    /// An EMC of 16,384 entries with two candidate entries for each flow.
    Emc2Large,
    /// [`Dfc`] behind an EMC.
    Dfc,
    /// [`Cd`] behind an EMC.
    Cd,
    /// [`Smc`] behind an EMC.
    Smc,
}

impl Kind {
    /// All kinds with their names.
    pub const ALL: [(&str, Kind); 9] = [
        ("unified", Kind::Unified),
        ("ovs", Kind::Ovs),
        ("emc1", Kind::Emc1),
        ("emc1-16k", Kind::Emc1Large),
        ("emc2", Kind::Emc2),
        ("emc2-16k", Kind::Emc2Large),
        ("dfc", Kind::Dfc),
        ("cd", Kind::Cd),
        ("smc", Kind::Smc),
    ];

    /// Parses the name of a kind.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }

    /// The name of this kind.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// The parameters of a cache to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheParams {
    /// The kind of cache.
    pub kind: Kind,
    /// One in this many new flows is inserted into an EMC; 0: no EMC. [`Kind::Unified`] has no EMC.
    pub emc_insert_inv_prob: u32,
    /// For [`Kind::Ovs`]: whether there is an SMC behind the EMC.
    pub smc: bool,
}

impl Default for CacheParams {
    fn default() -> CacheParams {
        CacheParams { kind: Kind::default(), emc_insert_inv_prob: 100, smc: false }
    }
}

/// A cache of any kind.
#[allow(missing_docs)]
pub enum Cache {
    Narrow(Unified<Narrow>),
    Wide(Unified<Wide>),
    Emc(WithEmc<NoCache>),
    Dfc(WithEmc<Dfc>),
    Cd(WithEmc<Cd>),
    Smc(WithEmc<Smc>),
}

/// Executes code that is compiled separately for each kind of cache: `each_cache!(&mut cache, c => c.clear())`.
#[macro_export]
macro_rules! each_cache {
    ($cache:expr, $c:ident => $body:expr) => {
        match $cache {
            $crate::Cache::Narrow($c) => $body,
            $crate::Cache::Wide($c) => $body,
            $crate::Cache::Emc($c) => $body,
            $crate::Cache::Dfc($c) => $body,
            $crate::Cache::Cd($c) => $body,
            $crate::Cache::Smc($c) => $body,
        }
    };
}

impl Default for Cache {
    fn default() -> Cache {
        Cache::new(&CacheParams::default(), None)
    }
}

impl Cache {
    /// Creates an empty cache of the chosen kind. `advise` is called with tables of at least a huge page before they
    /// are used.
    pub fn new(choice: &CacheParams, advise: Option<Advise>) -> Cache {
        let emc = |bits, ways| {
            let inv_prob = choice.emc_insert_inv_prob;
            (inv_prob != 0).then(|| Emc::new(bits, ways, inv_prob, advise))
        };
        let smc = || Smc::new(smc::BUCKETS, advise);
        match choice.kind {
            Kind::Unified => Cache::Narrow(Unified::new(MIN_BUCKETS, MAX_BUCKETS, advise)),
            Kind::Ovs if choice.smc => Cache::Smc(WithEmc::new(emc(13, 2), smc())),
            Kind::Emc1 => Cache::Emc(WithEmc::new(emc(13, 1), NoCache)),
            Kind::Emc1Large => Cache::Emc(WithEmc::new(emc(14, 1), NoCache)),
            Kind::Ovs | Kind::Emc2 => Cache::Emc(WithEmc::new(emc(13, 2), NoCache)),
            Kind::Emc2Large => Cache::Emc(WithEmc::new(emc(14, 2), NoCache)),
            Kind::Dfc => Cache::Dfc(WithEmc::new(emc(13, 2), Dfc::new(dfc::ENTRIES, advise))),
            Kind::Cd => Cache::Cd(WithEmc::new(emc(13, 2), Cd::new(cd::BUCKETS, advise))),
            Kind::Smc => Cache::Smc(WithEmc::new(emc(13, 2), smc())),
        }
    }

    /// Lets a unified cache change its size or its layout, which drops its entries. Call it between batches from time
    /// to time.
    pub fn maintain(&mut self, now: Millis) {
        match self {
            Cache::Narrow(c) => match c.outgrown() {
                Some(wide) => *self = Cache::Wide(wide),
                None => c.maintain(now),
            },
            Cache::Wide(c) => c.maintain(now),
            Cache::Emc(_) | Cache::Dfc(_) | Cache::Cd(_) | Cache::Smc(_) => {}
        }
    }

    /// See [`FlowCache::BY_MASKS`].
    #[inline]
    pub fn is_by_masks(&self) -> bool {
        matches!(self, Cache::Narrow(_) | Cache::Wide(_))
    }

    /// Capacity in entries.
    pub fn capacity(&self) -> usize {
        each_cache!(self, c => c.capacity())
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        each_cache!(self, c => c.bytes())
    }

    /// Address and size in bytes of the largest table.
    pub fn largest_table(&self) -> (usize, usize) {
        each_cache!(self, c => c.largest_table())
    }
}
