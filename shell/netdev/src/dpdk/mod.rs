//! `dpdk`: ports on devices that DPDK drives, found or hot-plugged by `options:dpdk-devargs`.

mod facts;
mod options;
mod port;
mod rx_modes;
mod statistics;

pub use port::Dpdk;
