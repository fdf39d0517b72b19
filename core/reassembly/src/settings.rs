//! Settings and counters for each IP version. Any thread reads and writes them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Default maximum number of waiting fragments.
pub(crate) const MAX_FRAGMENTS: u32 = 1000;
/// Largest value that can be set for the maximum number of waiting fragments.
const MAX_FRAGMENTS_LIMIT: u32 = 5000;
/// Smallest value that can be set for the minimum size, in bytes.
const MIN_SIZE_LIMIT: u32 = 400;

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Family {
    V4,
    V6,
}

/// Counters of fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fragments that were stored.
    pub accepted: u64,
    /// Fragments of datagrams that were completed.
    pub completed: u64,
    /// Fragments whose datagram was not completed in time.
    pub expired: u64,
    /// Fragments that were refused because they were too small and not the last of their datagram.
    pub too_small: u64,
    /// Fragments that were refused because they overlapped others.
    pub overlapped: u64,
    /// Fragments that were removed for another reason.
    pub purged: u64,
}

/// State of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyStatus {
    /// Fragments wait until their datagram is complete. If not set, fragments are invalid.
    pub enabled: bool,
    /// Minimum size of fragments other than the last, in bytes from the network header on.
    pub min_size: u32,
    /// Counters.
    pub counts: Counts,
}

/// Settings and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of waiting fragments.
    pub fragments: u32,
    /// Maximum number of waiting fragments.
    pub max_fragments: u32,
    /// IPv4.
    pub v4: FamilyStatus,
    /// IPv6.
    pub v6: FamilyStatus,
}

/// Names of the counters of [`Counts`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Accepted,
    Completed,
    Expired,
    TooSmall,
    Overlapped,
    Purged,
}

#[derive(Debug)]
pub(crate) struct FamilySettings {
    enabled: AtomicBool,
    min_size: AtomicU32,
    counts: [AtomicU64; Counter::Purged as usize + 1],
}

impl FamilySettings {
    fn new(min_size: u32) -> FamilySettings {
        FamilySettings {
            enabled: AtomicBool::new(true),
            min_size: AtomicU32::new(min_size),
            counts: Default::default(),
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    pub(crate) fn min_size(&self) -> u32 {
        self.min_size.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, counter: Counter, n: u64) {
        self.counts[counter as usize].fetch_add(n, Ordering::Relaxed);
    }

    fn status(&self) -> FamilyStatus {
        let n = |counter: Counter| self.counts[counter as usize].load(Ordering::Relaxed);
        let counts = Counts {
            accepted: n(Counter::Accepted),
            completed: n(Counter::Completed),
            expired: n(Counter::Expired),
            too_small: n(Counter::TooSmall),
            overlapped: n(Counter::Overlapped),
            purged: n(Counter::Purged),
        };
        FamilyStatus { enabled: self.is_enabled(), min_size: self.min_size(), counts }
    }
}

/// Settings and counters that threads share.
#[derive(Debug)]
pub(crate) struct Settings {
    max_fragments: AtomicU32,
    v4: FamilySettings,
    v6: FamilySettings,
}

impl Default for Settings {
    fn default() -> Settings {
        // The default minimum size for IPv6 is the minimum MTU of IPv6 links (RFC 8200 §5).
        Settings {
            max_fragments: AtomicU32::new(MAX_FRAGMENTS),
            v4: FamilySettings::new(1200),
            v6: FamilySettings::new(1280),
        }
    }
}

impl Settings {
    pub(crate) fn of(&self, family: Family) -> &FamilySettings {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    pub(crate) fn max_fragments(&self) -> u32 {
        self.max_fragments.load(Ordering::Relaxed)
    }

    /// Returns `false` if `max` is more than can be set.
    pub(crate) fn set_max_fragments(&self, max: u32) -> bool {
        let fits = max <= MAX_FRAGMENTS_LIMIT;
        if fits {
            self.max_fragments.store(max, Ordering::Relaxed);
        }
        fits
    }

    pub(crate) fn set_enabled(&self, family: Family, enabled: bool) {
        self.of(family).enabled.store(enabled, Ordering::Relaxed);
    }

    /// Returns `false` if `bytes` is less than can be set.
    pub(crate) fn set_min_size(&self, family: Family, bytes: u32) -> bool {
        let fits = bytes >= MIN_SIZE_LIMIT;
        if fits {
            self.of(family).min_size.store(bytes, Ordering::Relaxed);
        }
        fits
    }

    pub(crate) fn status(&self, fragments: u32) -> Status {
        Status { fragments, max_fragments: self.max_fragments(), v4: self.v4.status(), v6: self.v6.status() }
    }
}
