//! Mode `spp` of ports that copy packets on reception (vhost-user, tap). The copy counts in the quota of a pool until it
//! is freed, wherever it waits. A queue that has used up its allowance is not read, so its packets wait at their sender.

use crate::account::Account;
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult};
use rxpool::Mode;
use std::sync::Arc;

/// The name of the pools for such ports.
const KIND: &str = "received";

/// The accounts of a port's queues.
#[derive(Default)]
pub struct Accounts {
    settings: RxPoolSettings,
    queues: Vec<Arc<Account>>,
}

impl Accounts {
    /// Stores the settings. Returns true if they changed. Then the port must create its rx queues again, because [`wrap`](Self::wrap) uses them.
    pub fn set(&mut self, settings: &RxPoolSettings) -> bool {
        let settings = if settings.mode == Mode::Spp { *settings } else { RxPoolSettings::default() };
        std::mem::replace(&mut self.settings, settings) != settings
    }

    /// Removes the accounts of earlier queues.
    pub fn clear(&mut self) {
        self.queues.clear();
    }

    /// Wraps the next queue of the port. In mode `spp` the frames of the wrapped queue count in its quota.
    pub fn wrap(&mut self, queue: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        if self.settings.mode != Mode::Spp {
            return queue;
        }
        // If the reserves of its queues would use up a pool, which `RxPoolSettings::check` refuses earlier, the queue works as in mode `none`.
        let Some(account) = Account::open(KIND, &self.settings, self.settings.pool_size) else {
            return queue;
        };
        self.queues.push(Arc::clone(&account));
        Box::new(ChargedRx { inner: queue, account })
    }

    /// The number of buffers that each queue uses.
    pub fn usage(&self) -> Vec<QueueUse> {
        self.queues.iter().map(|account| QueueUse { posted: 0, ..account.usage() }).collect()
    }
}

/// A queue whose frames count in a quota.
struct ChargedRx {
    inner: Box<dyn RxQueue>,
    account: Arc<Account>,
}

impl RxQueue for ChargedRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let Account { pool: shared, slot, settings, .. } = &*self.account;
        let allowance = shared.allowance(*slot, settings.alpha);
        let acquired = shared.acquire(*slot, max as u32, allowance);
        if acquired == 0 {
            return RxResult { more: true, ..RxResult::default() };
        }
        let before = out.len();
        let result = self.inner.rx(pool, out, acquired as usize);
        let received = out.len() - before;
        shared.release(*slot, acquired - received as u32);
        let charged: Vec<Frame> =
            out.drain(before..).map(|frame| frame.charged_to(self.account.clone())).collect();
        out.extend(charged);
        result
    }

    fn return_buffers(&mut self) -> bool {
        self.inner.return_buffers()
    }

    fn waiting(&mut self) -> Option<u32> {
        self.inner.waiting()
    }

    /// While frames use up the allowance, the file descriptor may not become readable. Then the worker must poll the queue, which
    /// receives again when frames are freed.
    fn arm(&mut self, on: bool) -> bool {
        let Account { pool, slot, settings, .. } = &*self.account;
        self.inner.arm(on) && pool.held(*slot) < pool.allowance(*slot, settings.alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::queue::Repeat;
    use rxpool::Alpha;

    const SIZE: u32 = 1024;
    const RESERVE: u32 = 40;

    /// Four queues that always have packets, and their frames wherever they are in the switch.
    struct Queues {
        accounts: Accounts,
        queues: Vec<Box<dyn RxQueue>>,
        frames: Vec<Vec<Frame>>,
        pool: FramePool,
    }

    impl Queues {
        fn new(alpha: f64) -> Queues {
            let mode = Mode::Spp;
            let alpha = Alpha::new(alpha);
            let mut accounts = Accounts::default();
            let (pool_size, pool_queues, reserve) = (SIZE, 4, RESERVE);
            accounts.set(&RxPoolSettings { mode, alpha, by_drain: false, reserve, pool_size, pool_queues });
            let source = || Box::new(Repeat::new(vec![vec![0; 60]], 64));
            let queues = (0..4).map(|_| accounts.wrap(source())).collect();
            Queues {
                accounts,
                queues,
                frames: (0..4).map(|_| Vec::new()).collect(),
                pool: FramePool::new(64),
            }
        }

        fn held(&self) -> Vec<u32> {
            self.accounts.usage().iter().map(|usage| usage.held).collect()
        }
    }

    /// The number of buffers that a queue may acquire now, computed from the formula of the dynamic threshold.
    fn allowed(held: &[u32], at: usize, alpha: f64) -> u32 {
        let beyond = |held: u32| held.saturating_sub(RESERVE);
        let shared = SIZE - 4 * RESERVE;
        let others: u32 =
            held.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, held)| beyond(*held)).sum();
        let share = (alpha / (1.0 + alpha) * f64::from(shared - others)).floor() as u32;
        (RESERVE + share).saturating_sub(held[at]).min(64)
    }

    /// For random orders of polls and freed frames, queues receive as many packets as the formula allows. The quota counts each frame,
    /// and each queue can always use its reserve.
    #[test]
    fn queues_receive_what_the_formula_allows() {
        for seed in 0..60u64 {
            let mut x = seed;
            let mut random = |below: usize| {
                // A linear congruential generator (Knuth): the upper bits are good enough here.
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (x >> 33) as usize % below
            };
            // Powers of two, which `Alpha` represents exactly.
            let alpha = [0.5, 1.0, 1.0, 8.0][random(4)];
            let mut q = Queues::new(alpha);
            for _ in 0..400 {
                let at = random(4);
                if random(3) == 0 {
                    let n = random(q.frames[at].len() + 1);
                    q.frames[at].drain(..n).for_each(drop);
                } else {
                    let (held, before) = (q.held(), q.frames[at].len());
                    let wanted = allowed(&held, at, alpha);
                    q.queues[at].rx(&mut q.pool, &mut q.frames[at], 64);
                    let got = (q.frames[at].len() - before) as u32;
                    assert!(got.abs_diff(wanted) <= 1, "seed {seed}: {got}, not {wanted} with {held:?}");
                    assert!(
                        held[at] + got >= RESERVE.min(held[at] + 64),
                        "seed {seed}: a reserve is granted"
                    );
                }
                let lens: Vec<u32> = q.frames.iter().map(|frames| frames.len() as u32).collect();
                assert_eq!(q.held(), lens, "seed {seed}");
            }
            q.frames.clear();
            assert_eq!(q.held(), [0; 4], "seed {seed}");
        }
    }
}
