//! Mode `spp` of a kernel device: adjusts the receive buffer limit of its packet socket.
//!
//! The kernel allocates a buffer when a packet arrives, so a socket has no posted buffers, but a limit in bytes. The limit
//! counts in the quota of a pool, in units of one buffer: the low watermark while the queue is idle, up to the allowance while it is
//! busy. The limit can be lowered at any time, so an idle queue releases its quota at once.

use crate::account::Account;
use crate::linux::packet_socket;
use rxpool::refill::Change;
use rxpool::{LOW_WATERMARK, Refill};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that the kernel counts for a packet of 1,500 bytes in a packet socket.
pub const UNIT: u32 = 2304;

/// High watermark: 8 MiB as the kernel counts, half the limit of sockets in other modes.
pub const HIGH: u32 = (8 << 20) / UNIT;

/// The limit of one socket. The worker that polls the socket owns it.
pub struct SocketLimit {
    account: Arc<Account>,
    refill: Refill,
    /// Units (of [`UNIT`] bytes) that were acquired from the pool for the limit.
    quota: u32,
}

impl SocketLimit {
    /// Creates the limit and sets it to the low watermark.
    pub fn new(account: Arc<Account>, fd: &OwnedFd) -> SocketLimit {
        let mut limit = SocketLimit { account, refill: Refill::new(LOW_WATERMARK, HIGH), quota: 0 };
        limit.adjust(fd);
        limit
    }

    /// Sets the limit to the target of the quota.
    fn adjust(&mut self, fd: &OwnedFd) {
        let Account { pool, slot, settings, .. } = &*self.account;
        let allowance = pool.allowance(*slot, settings.alpha);
        let target = self.refill.target(allowance);
        let before = self.quota;
        if target > before {
            self.quota += pool.acquire(*slot, target - before, allowance);
        } else {
            pool.release(*slot, before - target);
            self.quota = target;
        }
        if self.quota != before {
            // The limit is never higher than the acquired quota. If it cannot be set, the previous limit stays in force.
            let _ = packet_socket::set_receive_buffer(fd, self.quota.saturating_mul(UNIT));
        }
    }

    /// Records a poll: whether it received a full burst, and how many bytes. Returns the number of packets that the kernel dropped.
    /// The kernel's counter is read only when the queue becomes busy or idle.
    pub fn record_poll(&mut self, fd: &OwnedFd, full: bool, bytes: u64) -> u64 {
        // A few long packets can fill the buffer without a full burst.
        let full = full || 2 * bytes >= u64::from(self.quota) * u64::from(UNIT);
        let account = &self.account;
        match self.refill.record_poll(full) {
            // The allowance of a busy queue changes with the use of the pool.
            Change::Same if self.refill.is_busy() && full => self.adjust(fd),
            Change::Same => {}
            change => {
                let lost = packet_socket::take_drops(fd).unwrap_or(0);
                account.count_lost(lost);
                if change == Change::BecameBusy {
                    account.became_busy.fetch_add(1, Ordering::Relaxed);
                    account.first_burst_lost.fetch_add(lost, Ordering::Relaxed);
                }
                account.busy.store(self.refill.is_busy(), Ordering::Relaxed);
                self.adjust(fd);
                return lost;
            }
        }
        0
    }
}
