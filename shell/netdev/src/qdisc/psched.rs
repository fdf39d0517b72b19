//! The clock of the kernel's packet scheduler: its unit of time (tick), and the shortest burst.

use std::sync::OnceLock;

/// The scheduler's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Psched {
    ticks_per_second: u64,
    /// How often the scheduler runs per second.
    hz: u64,
}

impl Psched {
    /// The clock of this host (`/proc/net/psched`), read once; if that fails, the clock of current kernels.
    pub(super) fn of_host() -> Psched {
        static KNOWN: OnceLock<Psched> = OnceLock::new();
        let read = || std::fs::read_to_string("/proc/net/psched").ok().and_then(|text| Psched::parse(&text));
        *KNOWN.get_or_init(|| read().unwrap_or(Psched { ticks_per_second: 15_625_000, hz: 1_000_000_000 }))
    }

    /// Parses four hexadecimal numbers: ns per µs, ns per tick, the clock's resolution in Hz, and timer ticks per second.
    pub(super) fn parse(text: &str) -> Option<Psched> {
        let mut numbers = text.split_whitespace().map(|n| u64::from_str_radix(n, 16).ok());
        let mut next = || numbers.next().flatten().filter(|n| *n != 0);
        let (us, tick, resolution, hz) = (next()?, next()?, next()?, next()?);
        let hz = if resolution == 1_000_000 { hz } else { 100 };
        Some(Psched { ticks_per_second: us.checked_mul(resolution)? / tick, hz })
    }

    /// Number of ticks in which `bytes` are sent at `rate` bytes per second.
    pub(super) fn ticks_of_bytes(self, bytes: u64, rate: u64) -> u32 {
        let ticks = u128::from(self.ticks_per_second) * u128::from(bytes) / u128::from(rate.max(1));
        ticks.try_into().unwrap_or(u32::MAX)
    }

    pub(super) fn ticks_of_micros(self, micros: u32) -> u32 {
        let ticks = u128::from(self.ticks_per_second) * u128::from(micros) / 1_000_000;
        ticks.try_into().unwrap_or(u32::MAX)
    }

    /// Number of ticks of a burst: of `burst` bytes, but at least of one MTU and the bytes sent between two runs of the scheduler.
    pub(super) fn burst(self, rate: u64, burst: u64, mtu: u32) -> u32 {
        self.ticks_of_bytes(burst.max(rate / self.hz + u64::from(mtu)), rate)
    }
}
