use super::*;
use proptest::prelude::*;

fn pair(number: u32, value: u32) -> Vec<u8> {
    [number, value].map(u32::to_ne_bytes).concat()
}

fn long(value: u64) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

fn address(number: u32) -> Vec<u8> {
    let mut out = pair(number, 0);
    out.resize(40, 0);
    out
}

/// Messages of front-ends that follow the protocol are accepted, in any order that the protocol allows.
#[test]
fn well_behaved_front_ends_pass() {
    for features in [0, feature::RING_PACKED, feature::MQ] {
        let mut rules = Rules::default();
        let mut say = |request, payload: Vec<u8>| {
            let message = Message { request, payload: &payload };
            assert_eq!(rules.before(features, message), Ok(()), "{request} {payload:?}");
            rules.after(message).unwrap();
        };
        for _ in 0..3 {
            say(SET_FEATURES, long(features));
            for ring in 0..2 {
                say(SET_VRING_NUM, pair(ring, 256));
                // QEMU sends the base first, rust-vmm's front-ends the addresses.
                for request in if ring == 0 { [SET_VRING_BASE, SET_VRING_ADDR] } else { [SET_VRING_BASE; 2] }
                {
                    let payload = if request == SET_VRING_BASE { pair(ring, 255) } else { address(ring) };
                    say(request, payload);
                }
                say(SET_VRING_ADDR, address(ring));
                say(SET_VRING_KICK, long(u64::from(ring)));
                say(SET_VRING_ENABLE, pair(ring, 1));
            }
            // A migration begins: the log of writes is enabled while rings run, and their addresses are sent again.
            say(SET_LOG_BASE, [1u64 << 20, 0].map(u64::to_ne_bytes).concat());
            say(SET_FEATURES, long(features | feature::LOG_ALL));
            say(SET_VRING_ADDR, address(0));
            say(SET_FEATURES, long(features));
            for ring in 0..2 {
                say(GET_VRING_BASE, pair(ring, 0));
            }
        }
    }
}

#[test]
fn messages_that_would_leave_a_ring_incomplete_are_refused() {
    let mut rules = Rules::default();
    let mut ask = |features, request, payload: Vec<u8>| {
        let message = Message { request, payload: &payload };
        let said = rules.before(features, message);
        if said.is_ok() {
            rules.after(message).unwrap();
        }
        said
    };
    let packed = feature::RING_PACKED;
    assert_eq!(ask(0, SET_VRING_ADDR, address(1)), Err(Refusal::Unprepared(1)));
    assert_eq!(ask(0, SET_VRING_KICK, long(1)), Err(Refusal::Unprepared(1)));
    for size in [0, 3, 32769, u32::MAX] {
        assert_eq!(ask(0, SET_VRING_NUM, pair(1, size)), Err(Refusal::Size(size)));
    }
    assert_eq!(ask(0, SET_VRING_NUM, pair(1, 256)), Ok(()));
    assert_eq!(ask(0, SET_VRING_ADDR, address(1)), Ok(()));
    assert_eq!(ask(0, SET_VRING_NUM, pair(1, 32768)), Err(Refusal::InUse(1)));
    assert_eq!(ask(0, SET_FEATURES, long(packed)), Err(Refusal::FeaturesInUse));
    assert_eq!(ask(0, GET_VRING_BASE, pair(1, 0)), Ok(()));
    assert_eq!(ask(0, SET_VRING_KICK, long(1)), Err(Refusal::Unprepared(1)));
    assert_eq!(ask(0, SET_VRING_NUM, pair(1, 256)), Ok(()));
    assert_eq!(ask(0, SET_FEATURES, long(packed)), Ok(()));
    assert_eq!(ask(packed, SET_VRING_ADDR, address(1)), Err(Refusal::Unprepared(1)));
    assert_eq!(ask(packed, SET_VRING_NUM, pair(1, 100)), Ok(()));
    assert_eq!(ask(packed, SET_VRING_BASE, pair(1, 100)), Ok(()));
    assert_eq!(ask(packed, SET_VRING_ADDR, address(1)), Err(Refusal::Base(1)));
    assert_eq!(ask(packed, SET_VRING_BASE, pair(1, 0x8063)), Ok(()));
    assert_eq!(ask(packed, SET_VRING_ADDR, address(1)), Ok(()));
    assert_eq!(ask(packed, SET_VRING_BASE, pair(1, 0x8064)), Err(Refusal::Base(1)));
    assert_eq!(ask(packed, RESET_OWNER, Vec::new()), Ok(()));
    assert_eq!(ask(0, SET_VRING_ADDR, address(1)), Err(Refusal::Unprepared(1)));
    assert_eq!(ask(0, SET_LOG_BASE, [4096u64, 4096].map(u64::to_ne_bytes).concat()), Err(Refusal::LogOffset));
    assert_eq!(ask(0, SET_INFLIGHT_FD, vec![0; 20]), Err(Refusal::NotOffered));
    assert_eq!(ask(0, SET_VRING_NUM, vec![0; 7]), Err(Refusal::Short));
}

#[test]
fn all_rings_together_are_bounded() {
    let mut rules = Rules::default();
    for ring in 0..9 {
        let payload = pair(ring, RING_MAX);
        let message = Message { request: SET_VRING_NUM, payload: &payload };
        let wanted = if ring < 8 { Ok(()) } else { Err(Refusal::TooMany) };
        assert_eq!(rules.before(0, message), wanted);
        rules.after(message).unwrap();
    }
}

/// The part of the library's (22.11) state of a ring on which memory safety depends.
#[derive(Clone, Copy, Default, Debug)]
struct Queue {
    size: u32,
    index: u32,
    /// The layout and the size for which memory is allocated.
    shadow: Option<(bool, u32)>,
    /// The features and the size for which the addresses were looked up.
    mapped: Option<(u64, u32)>,
    kicked: bool,
}

/// The three features that matter, in any combination.
fn features_of(value: u32) -> u64 {
    let bits = [feature::RING_PACKED, feature::MQ, feature::LOG_ALL];
    bits.into_iter().enumerate().filter(|(i, _)| value >> i & 1 == 1).map(|(_, bit)| bit).sum()
}

#[derive(Default, Debug)]
struct Library {
    features: u64,
    queues: [Queue; 4],
}

impl Library {
    fn handle(&mut self, request: u32, number: usize, value: u32, is_running: bool) {
        let (features, packed) = (self.features, self.features & feature::RING_PACKED != 0);
        let q = &mut self.queues[number];
        match request {
            SET_FEATURES if is_running && features_of(value) == features => {}
            SET_FEATURES => {
                self.features = features_of(value);
                if self.features & feature::MQ == 0 {
                    self.queues[2..].fill(Queue::default());
                }
            }
            SET_VRING_NUM => (q.size, q.shadow) = (value, Some((packed, value))),
            SET_VRING_BASE => q.index = value & if packed { 0x7fff } else { 0xffff },
            SET_VRING_ADDR => {
                // The library translates the addresses at once, or with the kick at the latest.
                q.mapped = Some((features, q.size));
            }
            SET_VRING_KICK => {
                q.mapped = q.mapped.or(Some((features, q.size)));
                q.kicked = true;
            }
            GET_VRING_BASE => {
                (q.shadow, q.mapped, q.kicked) = (None, None, false);
            }
            RESET_OWNER => *self = Library::default(),
            _ => {}
        }
    }

    /// Checks that a worker that polls the ring accesses only its memory.
    fn check(&self) {
        let packed = self.features & feature::RING_PACKED != 0;
        for q in self.queues.iter().filter(|q| q.kicked && q.mapped.is_some()) {
            assert!(q.size > 0, "{self:?}");
            assert_eq!(q.shadow, Some((packed, q.size)), "{self:?}");
            let (features, size) = q.mapped.unwrap();
            assert_eq!((features & feature::RING_PACKED != 0, size), (packed, q.size), "{self:?}");
            assert!(!packed || q.index < q.size, "{self:?}");
        }
    }
}

proptest! {
    /// Random messages in random order, also if the library refuses what the rules allowed.
    #[test]
    fn no_ring_runs_with_less_than_it_needs(
        talk in prop::collection::vec((0usize..9, 0usize..4, 0u32..9, 0u8..8), 1..120)
    ) {
        let (mut rules, mut library) = (Rules::default(), Library::default());
        for (request, number, value, luck) in talk {
            let request = [
                SET_FEATURES, SET_VRING_NUM, SET_VRING_BASE, SET_VRING_ADDR, SET_VRING_ADDR, SET_VRING_KICK,
                SET_VRING_NUM, GET_VRING_BASE, RESET_OWNER,
            ][request];
            let n = number as u32;
            let features = features_of(value);
            let payload = match request {
                SET_FEATURES => long(features),
                SET_VRING_ADDR => address(n),
                SET_VRING_KICK => long(u64::from(n)),
                _ => pair(n, value),
            };
            let message = Message { request, payload: &payload };
            if rules.before(library.features, message).is_err() {
                continue;
            }
            // The message came with descriptors, which the library does not accept for these requests.
            if luck == 0 && request != SET_VRING_KICK {
                continue;
            }
            // Whether the device runs depends on more messages than these, so both cases are tried.
            library.handle(request, number, value, luck & 1 == 1);
            library.check();
            prop_assert!(rules.after(message).is_ok());
        }
    }
}
