//! Which cache it is: chosen by name at run time, told apart once a batch.

use crate::bucket::{Narrow, Wide};
use crate::unified::{MAX_BUCKETS, MIN_BUCKETS};
use crate::{Cd, Dfc, Emc, FlowCache, Front, Nothing, Smc, Unified, cd, dfc, smc};
use cpu::Advise;
use units::Millis;

/// A cache's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// [`Unified`].
    #[default]
    Unified,
    /// EMC and SMC, each if its knob is on.
    Ovs,
    /// An EMC with one place for a flow.
    Emc1,
    /// The same of 16,384 entries.
    Emc1Large,
    /// An EMC with two places for a flow.
    Emc2,
    /// The same of 16,384 entries.
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

    /// By its name.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A cache that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub kind: Kind,
    /// One new flow in so many enters an EMC; 0: there is none. [`Kind::Unified`] has none.
    pub emc_insert_inv_prob: u32,
    /// Of [`Kind::Ovs`]: whether there is an SMC.
    pub smc: bool,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice { kind: Kind::default(), emc_insert_inv_prob: 100, smc: false }
    }
}

/// Some cache.
#[allow(missing_docs)]
pub enum Cache {
    Narrow(Unified<Narrow>),
    Wide(Unified<Wide>),
    Emc(Front<Nothing>),
    Dfc(Front<Dfc>),
    Cd(Front<Cd>),
    Smc(Front<Smc>),
}

/// Calls a piece of code that is compiled for each kind of cache: `each_cache!(&mut cache, c => c.clear())`.
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
        Cache::new(&Choice::default(), None)
    }
}

impl Cache {
    /// The cache that was chosen, empty. `advise` is told of tables of huge pages before they are used.
    pub fn new(choice: &Choice, advise: Option<Advise>) -> Cache {
        let emc = |bits, ways| {
            let inv_prob = choice.emc_insert_inv_prob;
            (inv_prob != 0).then(|| Emc::new(bits, ways, inv_prob, advise))
        };
        let smc = || Smc::new(smc::BUCKETS, advise);
        match choice.kind {
            Kind::Unified => Cache::Narrow(Unified::new(MIN_BUCKETS, MAX_BUCKETS, advise)),
            Kind::Ovs if choice.smc => Cache::Smc(Front::new(emc(13, 2), smc())),
            Kind::Emc1 => Cache::Emc(Front::new(emc(13, 1), Nothing)),
            Kind::Emc1Large => Cache::Emc(Front::new(emc(14, 1), Nothing)),
            Kind::Ovs | Kind::Emc2 => Cache::Emc(Front::new(emc(13, 2), Nothing)),
            Kind::Emc2Large => Cache::Emc(Front::new(emc(14, 2), Nothing)),
            Kind::Dfc => Cache::Dfc(Front::new(emc(13, 2), Dfc::new(dfc::ENTRIES, advise))),
            Kind::Cd => Cache::Cd(Front::new(emc(13, 2), Cd::new(cd::BUCKETS, advise))),
            Kind::Smc => Cache::Smc(Front::new(emc(13, 2), smc())),
        }
    }

    /// To be called between batches now and then: a unified cache may change its size or its layout, at the price of what
    /// it holds.
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

    /// How many entries it has room for.
    pub fn capacity(&self) -> usize {
        each_cache!(self, c => c.capacity())
    }

    /// Its memory.
    pub fn bytes(&self) -> usize {
        each_cache!(self, c => c.bytes())
    }

    /// Address and bytes of its largest table.
    pub fn place(&self) -> (usize, usize) {
        each_cache!(self, c => c.place())
    }
}
