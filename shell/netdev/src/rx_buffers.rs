//! How a port gets its receive buffers: settings of the database, and what `rxpool/show` prints.

use crate::error::NetdevError;
use rxpool::{Alpha, LOW_WATERMARK, Mode};
use settings::interface::{RX_POOL, RX_POOL_ALPHA, RX_POOL_DRAIN, RX_POOL_RESERVE};
use settings::root::{RX_POOL_QUEUES, RX_POOL_SIZE};
use std::collections::BTreeMap;

/// The settings of one port, and the size of pools that are made from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxBuffers {
    /// `other_config:rx-pool`.
    pub mode: Mode,
    /// The factor of the dynamic threshold.
    pub alpha: Alpha,
    /// Whether the threshold is weighted by the drain rate.
    pub by_drain: bool,
    /// Buffers that each rx queue is certain to get.
    pub reserve: u32,
    /// Buffers of a new pool.
    pub pool_size: u32,
    /// Rx queues that a new pool has places for.
    pub pool_queues: u32,
}

impl Default for RxBuffers {
    fn default() -> RxBuffers {
        RxBuffers {
            mode: Mode::None,
            alpha: Alpha::ONE,
            by_drain: false,
            reserve: LOW_WATERMARK,
            pool_size: 4096,
            pool_queues: 16,
        }
    }
}

type Map = BTreeMap<String, String>;

impl RxBuffers {
    /// Reads `other_config` of the interface and of `Open_vSwitch`.
    pub fn read(interface: &Map, root: &Map) -> Result<RxBuffers, String> {
        let word = RX_POOL.word(interface);
        let mode = Mode::of_name(word).ok_or_else(|| format!("{}: '{word}' is not a mode", RX_POOL.key))?;
        let text = RX_POOL_ALPHA.word(interface);
        let alpha = Alpha::parse(text).ok_or_else(|| {
            let (min, max) = (Alpha::MIN.value(), Alpha::MAX.value());
            format!("{}: '{text}' is not a number from {min} to {max}", RX_POOL_ALPHA.key)
        })?;
        Ok(RxBuffers {
            mode,
            alpha,
            by_drain: RX_POOL_DRAIN.flag_of(interface),
            reserve: RX_POOL_RESERVE.number(interface) as u32,
            pool_size: RX_POOL_SIZE.number(root) as u32,
            pool_queues: RX_POOL_QUEUES.number(root) as u32,
        })
    }
}

impl RxBuffers {
    /// Refuses `basic`, for this reason, and a pool that is too small for its reserves.
    pub fn check(&self, name: &str, why: &str) -> Result<(), NetdevError> {
        let why = match self.mode {
            Mode::Basic => why,
            Mode::Spp if self.pool_queues.saturating_mul(self.reserve) >= self.pool_size => {
                "the reserves of a pool exceed its size"
            }
            _ => return Ok(()),
        };
        Err(NetdevError::rx_pool(name, self.mode.name(), why))
    }
}

/// The buffers of one rx queue at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUse {
    /// The pool that it shares; empty if it shares none.
    pub pool: String,
    /// The number of buffers in that pool, and how many of them all queues hold together.
    pub of_pool: (u32, u32),
    /// Buffers that it holds: posted, or in packets that it received.
    pub held: u32,
    /// Buffers with copies of packets that it sends, which it received elsewhere than in this pool.
    pub sending: u32,
    /// Buffers that are posted.
    pub posted: u32,
    /// The most that it held.
    pub peak: u32,
    /// Buffers that it may hold at this moment.
    pub allowance: u32,
    /// Buffers that it is certain to get.
    pub reserve: u32,
    /// High watermark: the most that are posted.
    pub high: u32,
    /// Whether it is busy: then its allowance is posted, otherwise the low watermark.
    pub busy: bool,
    /// How often it became busy.
    pub woken: u64,
    /// Packets that were lost when it became busy, because only the low watermark was posted.
    pub first_burst_lost: u64,
    /// Packets that found no buffer, those of first bursts included.
    pub lost: u64,
}
