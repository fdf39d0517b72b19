//! BFD: a parsed message is equal after it was written and parsed again. After any frames at any times, the session does everything
//! that is due.

use bridge::bfd::{Flags, Identity, MESSAGE_LEN, Message, Session, Settings, TTL, UDP_PORT, payload};
use flow::compose::compose;
use flow::{Flow, Mac};
use units::Millis;

const DISCRIMINATOR: u32 = 7;
/// Number of bytes of a step: milliseconds, kind of frame, message.
const STEP: usize = 3 + MESSAGE_LEN;

pub fn run(data: &[u8]) {
    payload(data);
    if let Ok(message) = Message::decode(data) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    session(data);
}

fn session(data: &[u8]) {
    let identity = Identity { discriminator: DISCRIMINATOR, number: 0, seed: 1 };
    let settings = Settings { decay_min_rx: Millis(3000), forwarding_if_rx: true, ..Settings::default() };
    let mut session = Session::new(identity, settings, Mac::default(), 0, Millis(0));
    let mut now = Millis(1);
    for (n, step) in data.chunks_exact(STEP).enumerate() {
        let Some((&[high, low, kind], message)) = step.split_first_chunk() else { return };
        now = now + Millis(u64::from(u16::from_be_bytes([high, low])));
        session.count_traffic(n as u64 * u64::from(kind), now);
        session.receive(&frame(message, kind), TTL, now);
        run_due(&mut session, now);
    }
}

/// Returns the message itself, or a frame that contains it. The message may be addressed to the session.
fn frame(message: &[u8], kind: u8) -> Vec<u8> {
    let mut message = message.to_vec();
    if kind & 1 != 0 {
        message[8..12].copy_from_slice(&DISCRIMINATOR.to_be_bytes());
    }
    if kind & 2 != 0 {
        // These fields get correct values (version, no authentication, length), so that a search need not find them.
        message[0] = message[0] & 0x1f | 0x20;
        message[1] &= !(Flags::AUTH | Flags::MULTIPOINT).bits();
        message[3] = MESSAGE_LEN as u8;
    }
    let flow = Flow { dl_type: 0x0800, nw_proto: 17, nw_ttl: TTL, tp_dst: UDP_PORT, ..Flow::ZERO };
    if kind & 4 != 0 { message } else { compose(&flow, &message) }
}

/// Sends everything that is due, and checks that nothing is due afterwards.
fn run_due(session: &mut Session, now: Millis) {
    for _ in 0..4 {
        session.run(now);
        let Some(frame) = session.transmit(now) else { break };
        let sent = Message::decode(payload(&frame).expect("it is a datagram")).expect("it is a message");
        assert!(!sent.flags.contains(Flags::POLL | Flags::FINAL));
        assert_eq!(sent.my_discriminator, DISCRIMINATOR);
    }
    assert!(session.deadline(now).is_none_or(|at| at > now));
    session.show(now);
    session.take_events();
}
