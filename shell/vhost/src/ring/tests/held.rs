//! A switch is killed between the reception and the end of a burst. The buffers of the sender, which has an inflight area, are held until
//! the receiver gets the packets.

use super::*;
use crate::ring::inflight::InflightArea;
use packet::held_buffers::{self, HeldBuffers};
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SIZE: u16 = 64;
const FEATURES: u64 = feature::VERSION_1 | feature::MRG_RXBUF;

/// The moment at which the switch is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Never,
    /// The packets were received; none is in the receiver's buffers.
    Received,
    /// Some packets are in the receiver's buffers.
    Copied,
    /// All packets are in the receiver's buffers, and the sender's buffers were released, but the packets are not visible to the receiver.
    Released,
    /// The packets are visible to the receiver.
    Sent,
    /// The sender sees that its buffers are used.
    Shown,
}

impl Kill {
    fn at(self, now: Kill) {
        if self == now {
            resume_unwind(Box::new("killed"));
        }
    }
}

/// The sending guest.
struct Sender<D: Driver> {
    guest: Mutex<Guest<D>>,
    kill: Mutex<Kill>,
}

impl<D: Driver> Sender<D> {
    fn guest(&self) -> MutexGuard<'_, Guest<D>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill(&self) -> MutexGuard<'_, Kill> {
        self.kill.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Driver> HeldBuffers for Sender<D> {
    fn release(&self) {
        self.guest().ring.release();
        let kill = *self.kill();
        kill.at(Kill::Released);
    }
}

fn area(packed: bool) -> Arc<InflightArea> {
    let wanted = [&[0; 16][..], &1u16.to_ne_bytes(), &SIZE.to_ne_bytes()].concat();
    Arc::new(InflightArea::create(&wanted, packed).unwrap().0)
}

/// Starts the ring as a switch that reads its position from the inflight area.
fn start<D: Driver>(guest: &mut Guest<D>, area: &Arc<InflightArea>) {
    let region = area.region(0, SIZE, D::Format::PACKED).unwrap();
    // The wrong `base` has no effect, because the position is recorded in the inflight area.
    let base = region.was_initialized().unwrap().then_some(7);
    let start = StartPosition { base, region: Some(region) };
    let ring = Ring::new(&guest.memory.0, addresses(), SIZE, FEATURES, start, None);
    guest.ring = ring.unwrap().unwrap();
}

/// One iteration of a worker.
fn iteration<S, R>(from: &Arc<Sender<S>>, to: &mut Guest<R>)
where
    S: Driver + Send + 'static,
    S::Format: Send,
    R: Driver,
{
    let kill = *from.kill();
    let (mut pool, mut out, mut leases) = (FramePool::new(64), Vec::new(), TailLeases::new());
    let got = from.guest().ring.receive(64, &mut pool, &mut out, Some(&mut leases));
    assert_eq!((got.needs_return, got.packets > 0, got.refused), (true, true, 0));
    held_buffers::hold(Arc::clone(from) as Arc<dyn HeldBuffers>);
    assert!(from.guest().collect().is_empty(), "buffers are held");
    kill.at(Kill::Received);
    let items: Vec<_> = out.iter().map(Item::from_frame).collect();
    let mut copied = 0;
    let filled = to.ring.fill(&items, |_, _| {
        copied += 1;
        if copied == 5 {
            kill.at(Kill::Copied);
        }
    });
    assert_eq!(filled.handled, items.len());
    kill.at(Kill::Sent);
    held_buffers::release();
    from.guest().ring.publish_deferred();
    kill.at(Kill::Shown);
}

/// The packets of one burst that arrive although the switch is killed, by their first bytes.
fn arrive<S, R>(seed: u64, kill: Kill) -> (Vec<u8>, u8)
where
    S: Driver + Send + 'static,
    S::Format: Send,
    R: Driver + Send,
    R::Format: Send,
{
    let mut dice = fastrand::Rng::with_seed(seed);
    let areas = [S::Format::PACKED, R::Format::PACKED].map(area);
    let from =
        Arc::new(Sender { guest: Mutex::new(Guest::<S>::new(SIZE, FEATURES)), kill: Mutex::new(kill) });
    let mut to = Guest::<R>::new(SIZE, FEATURES);
    let mut sent = 0;
    // The bursts of one seed begin at different positions of the rings.
    for kill in [Kill::Never, kill, Kill::Never] {
        // Long packets need two buffers.
        while to.offer(&[1024], true, false).is_some() {}
        for _ in 0..dice.usize(6..10) {
            let len = dice.choice([60, 300, 1500]).unwrap();
            let lens = if dice.bool() { cut(&mut dice, HEADER + len) } else { vec![(HEADER + len) as u32] };
            let mut guest = from.guest();
            if let Some(buffers) = guest.offer(&lens, false, false) {
                guest.write(&buffers, &[vec![0; HEADER], vec![sent; len]].concat());
                sent += 1;
            }
        }
        *from.kill() = kill;
        start(&mut from.guest(), &areas[0]);
        start(&mut to, &areas[1]);
        // The list of held buffers belongs to a thread, so a thread represents a process here.
        let ended = std::thread::scope(|scope| scope.spawn(|| iteration(&from, &mut to)).join());
        assert_eq!(ended.is_err(), kill != Kill::Never);
        from.guest().collect();
    }
    assert!(from.guest().offered.is_empty(), "all buffers are back");
    let (mut got, mut left) = (Vec::new(), 0);
    for (buffers, len) in to.collect() {
        let part = to.read(&buffers, len as usize);
        let bytes = if left == 0 { &part[HEADER..] } else { &part };
        if left == 0 {
            left = part[10];
            got.push(bytes[0]);
        }
        left -= 1;
        assert!(bytes.iter().all(|byte| Some(byte) == got.last()));
    }
    assert_eq!(left, 0, "all buffers of a packet are shown together");
    (got, sent)
}

/// Packets are lost only if the switch is killed between the release and the store that makes the packets visible; none is sent twice.
#[test]
fn packets_of_a_burst_arrive_once() {
    fn all<S, R>()
    where
        S: Driver + Send + 'static,
        S::Format: Send,
        R: Driver + Send,
        R::Format: Send,
    {
        for seed in 0..40 {
            for kill in [Kill::Received, Kill::Copied, Kill::Sent, Kill::Shown] {
                let (got, sent) = arrive::<S, R>(seed, kill);
                assert_eq!(got, (0..sent).collect::<Vec<_>>(), "{seed} {kill:?}");
            }
            let (got, sent) = arrive::<S, R>(seed, Kill::Released);
            let lost: Vec<_> = (0..sent).filter(|n| !got.contains(n)).collect();
            assert!(got.is_sorted_by(|a, b| a < b) && !lost.is_empty(), "{seed}");
            assert_eq!(lost.len(), usize::from(lost[lost.len() - 1] - lost[0]) + 1, "one burst");
        }
    }
    all::<SplitDriver, SplitDriver>();
    all::<SplitDriver, PackedDriver>();
    all::<PackedDriver, SplitDriver>();
    all::<PackedDriver, PackedDriver>();
}
