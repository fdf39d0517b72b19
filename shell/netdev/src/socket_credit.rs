//! Mode `spp` of a kernel device: the receive buffer of its packet socket is adjustable.
//!
//! The kernel allocates a buffer when a packet arrives, so a socket has no posted buffers, but a limit in bytes. The limit
//! is charged to a pool in units of a buffer: the low watermark while the queue is idle, up to the allowance while it is
//! busy. It can be lowered at any time, so an idle queue gives back at once.

use crate::account::Account;
use crate::linux::packet_socket;
use rxpool::refill::Change;
use rxpool::{LOW_WATERMARK, Refill};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the kernel accounts for a packet of 1,500 bytes in a packet socket.
pub const UNIT: u32 = 2304;

/// High watermark: the limit that sockets have otherwise, 8 MiB.
pub const HIGH: u32 = (8 << 20) / UNIT;

/// The limit of one socket; owned by the worker that polls it.
pub struct Credit {
    account: Arc<Account>,
    refill: Refill,
    credit: u32,
}

impl Credit {
    /// Sets the socket's limit to the low watermark.
    pub fn new(account: Arc<Account>, fd: &OwnedFd) -> Credit {
        let mut credit = Credit { account, refill: Refill::new(LOW_WATERMARK, HIGH), credit: 0 };
        credit.adjust(fd);
        credit
    }

    /// Brings the limit to the target.
    fn adjust(&mut self, fd: &OwnedFd) {
        let Account { pool, place, wanted, .. } = &*self.account;
        let allowance = pool.allowance(*place, wanted.alpha);
        let target = self.refill.target(allowance);
        let before = self.credit;
        if target > before {
            self.credit += pool.charge(*place, target - before, allowance);
        } else {
            pool.refund(*place, before - target);
            self.credit = target;
        }
        if self.credit != before {
            // The limit is never higher than what is charged; if it cannot be set, it stays as it was.
            let _ = packet_socket::set_receive_buffer(fd, self.credit.saturating_mul(UNIT));
        }
    }

    /// Takes note of a poll: whether it took a full burst, and how many bytes. Returns the packets that the kernel dropped;
    /// its counter is read only when the queue becomes busy or idle.
    pub fn polled(&mut self, fd: &OwnedFd, full: bool, bytes: u64) -> u64 {
        // A few long packets fill the buffer as well.
        let full = full || 2 * bytes >= u64::from(self.credit) * u64::from(UNIT);
        let told = &self.account;
        match self.refill.polled(full) {
            // The allowance of a busy queue follows the pool.
            Change::Same if self.refill.is_busy() && full => self.adjust(fd),
            Change::Same => {}
            change => {
                let lost = packet_socket::take_drops(fd).unwrap_or(0);
                told.count_lost(lost);
                if change == Change::BecameBusy {
                    told.woken.fetch_add(1, Ordering::Relaxed);
                    told.first_burst_lost.fetch_add(lost, Ordering::Relaxed);
                }
                told.busy.store(self.refill.is_busy(), Ordering::Relaxed);
                self.adjust(fd);
                return lost;
            }
        }
        0
    }
}
