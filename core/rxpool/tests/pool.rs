//! Properties of pools: fair shares, reserves that hold, no leaks.

use rxpool::{Alpha, LOW_WATERMARK, Pool, PoolSlot, Refill};

/// Lets each queue acquire one burst at a time until none gets more.
fn greedy(pool: &Pool, queues: &[(PoolSlot, Alpha)]) {
    while queues.iter().any(|(slot, alpha)| {
        let allowance = pool.allowance(*slot, *alpha);
        pool.acquire(*slot, 7, allowance) > 0
    }) {}
}

/// If each of `k` queues acquires as much as it may, each ends at alpha / (1 + k·alpha) of the shared part, beyond its reserve: in whatever
/// steps it acquires it, and also if there are fewer queues than slots.
#[test]
fn greedy_queues_converge_to_their_share() {
    for alpha in [0.125, 0.5, 1.0, 2.0, 8.0] {
        for k in [1, 2, 3, 7, 16, 32] {
            for reserve in [0, 64] {
                let pool = Pool::new(10_000, 32);
                let factor = Alpha::new(alpha);
                let queues: Vec<_> = (0..k).filter_map(|_| Some((pool.open(reserve)?, factor))).collect();
                let (shared, _) = pool.shared();
                assert_eq!((queues.len(), shared), (k, 10_000 - k as u32 * reserve));
                greedy(&pool, &queues);
                let share = alpha / (1.0 + k as f64 * alpha) * f64::from(shared);
                settle(&pool, &queues, reserve);
                // A burst is 16 buffers, and numbers of buffers are rounded.
                for (slot, _) in &queues {
                    let beyond = f64::from(pool.held(*slot) - reserve);
                    assert!(
                        (beyond - share).abs() <= 17.0 + 0.01 * share,
                        "{alpha} {k}: {beyond}, not {share}"
                    );
                }
            }
        }
    }
}

/// Traffic: each queue in turn releases a burst and acquires as many buffers as it may, like a queue that receives packets.
fn settle(pool: &Pool, queues: &[(PoolSlot, Alpha)], reserve: u32) {
    const BURST: u32 = 16;
    for _ in 0..1000 {
        for (slot, alpha) in queues {
            pool.release(*slot, BURST.min(pool.held(*slot) - reserve));
            pool.acquire(*slot, u32::MAX / 2, pool.allowance(*slot, *alpha));
        }
    }
}

/// A pool that other queues have filled without any threshold: a new queue gets a slot with its reserve, or none.
#[test]
fn a_queue_that_comes_last_gets_its_reserve_or_no_slot() {
    let pool = Pool::new(4096, 16);
    let first: Vec<_> = (0..15).filter_map(|_| Some((pool.open(LOW_WATERMARK)?, Alpha::MAX))).collect();
    for (slot, _) in &first {
        pool.acquire(*slot, u32::MAX / 2, u32::MAX / 2);
    }
    assert_eq!((first.len(), pool.shared().1, pool.open(LOW_WATERMARK)), (15, 0, None));
    pool.release(first[0].0, LOW_WATERMARK);
    let last = pool.open(LOW_WATERMARK).unwrap();
    assert_eq!(pool.acquire(last, 1000, pool.allowance(last, Alpha::ONE)), LOW_WATERMARK);
    assert_eq!((pool.open(1), pool.open(0)), (None, None));
}

/// Only queues that have a slot have a reserve, so a queue that is alone may hold its reserve and half of all other buffers.
#[test]
fn unused_slots_reserve_no_buffers() {
    let pool = Pool::new(4096, 16);
    let slot = pool.open(LOW_WATERMARK).unwrap();
    assert_eq!(pool.allowance(slot, Alpha::ONE), LOW_WATERMARK + (4096 - LOW_WATERMARK) / 2);
    pool.close(slot);
    assert_eq!(pool.shared(), (4096, 4096));
}

/// A queue of the test, as its owner sees it.
struct Queue {
    slot: PoolSlot,
    reserve: u32,
    held: u32,
    alpha: Alpha,
    /// The queue was closed; its buffers are still in use.
    closed: bool,
}

/// No sequence of additions, removals, changes and floods leaks a buffer or starves a reserve.
#[test]
fn nothing_leaks_and_no_reserve_starves() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let buffers = rng.u32(100..5000);
        let pool = Pool::new(buffers, rng.u32(1..20));
        let mut queues: Vec<Queue> = Vec::new();
        for _ in 0..2000 {
            step(&pool, &mut queues, &mut rng);
            let held: u32 = queues.iter().map(|q| q.held).sum();
            assert_eq!(pool.held_by_all(), held, "seed {seed}");
            assert!(held <= buffers, "seed {seed}");
            let used: u32 = queues.iter().map(|q| q.held.max(q.reserve)).sum();
            let reserves: u32 = queues.iter().map(|q| q.reserve).sum();
            assert_eq!(pool.shared(), (buffers - reserves, buffers - used), "seed {seed}");
        }
        for q in &queues {
            pool.release(q.slot, q.held);
            pool.close(q.slot);
        }
        assert_eq!((pool.held_by_all(), pool.slots().0), (0, 0), "seed {seed}");
        assert_eq!(pool.shared().0, pool.shared().1, "seed {seed}");
    }
}

fn step(pool: &Pool, queues: &mut Vec<Queue>, rng: &mut fastrand::Rng) {
    if queues.is_empty() || rng.u8(0..10) == 0 {
        let reserve = rng.u32(0..100);
        if let Some(slot) = pool.open(reserve) {
            assert!(queues.iter().all(|q| q.slot != slot), "one queue for a slot");
            queues.push(Queue { slot, reserve, held: 0, alpha: Alpha::ONE, closed: false });
        }
        return;
    }
    let at = rng.usize(0..queues.len());
    let queue = &mut queues[at];
    match rng.u8(0..8) {
        // The queue is removed; or it is closed while its buffers are still in use, and removed when they are free.
        0 if !queue.closed => {
            pool.close(queue.slot);
            (queue.closed, queue.reserve) = (true, 0);
        }
        1 => queue.alpha = Alpha::new(rng.f64() * 8.0),
        // A flood: the queue acquires what it can get, with or without a threshold.
        2..5 if !queue.closed => {
            let want = rng.u32(0..3000);
            let allowance = match rng.bool() {
                true => pool.allowance(queue.slot, queue.alpha),
                false => u32::MAX / 2,
            };
            let got = pool.acquire(queue.slot, want, allowance);
            assert!(got <= want);
            assert!(queue.held + got >= queue.reserve.min(queue.held + want), "a reserve is always granted");
            queue.held += got;
        }
        _ => {
            let n = rng.u32(0..=queue.held);
            pool.release(queue.slot, n);
            queue.held -= n;
        }
    }
    if queues[at].closed && queues[at].held == 0 {
        queues.swap_remove(at);
    }
}

/// Two queues share a pool: the busy one grows to its allowance and releases buffers when it is idle; then the other one grows.
#[test]
fn an_idle_queue_gives_back() {
    let pool = Pool::new(2304, 2);
    let (a, b) = (pool.open(LOW_WATERMARK).unwrap(), pool.open(LOW_WATERMARK).unwrap());
    let mut refill = Refill::new(LOW_WATERMARK, 2048);
    let post = |refill: &Refill, slot| {
        let target = refill.target(pool.allowance(slot, Alpha::ONE));
        pool.acquire(slot, target.saturating_sub(pool.held(slot)), target)
    };
    assert_eq!(post(&refill, a), LOW_WATERMARK);
    refill.record_poll(true);
    post(&refill, a);
    assert_eq!(pool.held(a), LOW_WATERMARK + 1024);
    pool.release(a, 1024);
    refill.set_idle();
    assert_eq!(post(&refill, a), 0);
    refill.record_poll(true);
    post(&refill, b);
    assert_eq!((pool.held(a), pool.held(b)), (LOW_WATERMARK, LOW_WATERMARK + 1024));
    assert_eq!((pool.peak(a), pool.peak(b)), (1152, 1152));
}
