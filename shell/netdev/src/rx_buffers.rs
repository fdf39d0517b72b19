//! The receive buffers of a port: settings of the database, and the values that `rxpool/show` prints.

use crate::error::NetdevError;
use rxpool::{Alpha, LOW_WATERMARK, Mode};
use settings::interface::{RX_POOL, RX_POOL_ALPHA, RX_POOL_DRAIN, RX_POOL_RESERVE};
use settings::root::{RX_POOL_QUEUES, RX_POOL_SIZE};
use std::collections::BTreeMap;

/// The settings of one port, and the sizes of pools that are created from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxPoolSettings {
    /// `other_config:rx-pool`.
    pub mode: Mode,
    /// The factor of the dynamic threshold.
    pub alpha: Alpha,
    /// Whether the threshold is weighted by the drain rate.
    pub by_drain: bool,
    /// Number of buffers reserved for each rx queue.
    pub reserve: u32,
    /// Number of buffers of a new pool.
    pub pool_size: u32,
    /// Maximum number of rx queues of a new pool.
    pub pool_queues: u32,
}

impl Default for RxPoolSettings {
    fn default() -> RxPoolSettings {
        RxPoolSettings {
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

impl RxPoolSettings {
    /// Reads `other_config` of the interface and of `Open_vSwitch`.
    pub fn read(interface: &Map, root: &Map) -> Result<RxPoolSettings, String> {
        let word = RX_POOL.word(interface);
        let mode = Mode::of_name(word).ok_or_else(|| format!("{}: '{word}' is not a mode", RX_POOL.key))?;
        let text = RX_POOL_ALPHA.word(interface);
        let alpha = Alpha::parse(text).ok_or_else(|| {
            let (min, max) = (Alpha::MIN.value(), Alpha::MAX.value());
            format!("{}: '{text}' is not a number from {min} to {max}", RX_POOL_ALPHA.key)
        })?;
        Ok(RxPoolSettings {
            mode,
            alpha,
            by_drain: RX_POOL_DRAIN.flag_of(interface),
            reserve: RX_POOL_RESERVE.number(interface) as u32,
            pool_size: RX_POOL_SIZE.number(root) as u32,
            pool_queues: RX_POOL_QUEUES.number(root) as u32,
        })
    }
}

impl RxPoolSettings {
    /// Refuses mode `basic`, with reason `why`, and mode `spp` if the reserves would use up the pool.
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

/// The buffers that one rx queue uses now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUse {
    /// The name of its pool; empty if it uses none.
    pub pool: String,
    /// The number of buffers in that pool, and the number that all its queues use together.
    pub of_pool: (u32, u32),
    /// Buffers that it uses: posted, or with packets that it received.
    pub held: u32,
    /// AF_XDP: buffers of this pool into which the tx queue of the same socket copied packets from other memory.
    pub sending: u32,
    /// Buffers that are posted.
    pub posted: u32,
    /// The largest number that it has used.
    pub peak: u32,
    /// Maximum number of buffers that it may use at this moment.
    pub allowance: u32,
    /// Number of buffers reserved for it.
    pub reserve: u32,
    /// High watermark: maximum number of posted buffers.
    pub high: u32,
    /// Whether it is busy. Then its allowance is posted, otherwise the low watermark.
    pub busy: bool,
    /// How often it became busy.
    pub became_busy: u64,
    /// Packets that were lost until it became busy, because only the low watermark was posted.
    pub first_burst_lost: u64,
    /// Packets for which there was no buffer, including those of `first_burst_lost`.
    pub lost: u64,
}
