//! LLDP: a parsed message is equal after it was written and parsed again. A session that receives any frames at any times keeps its timers
//! and its limit of neighbours.

use bridge::lldp::{Announcement, Message, Session};
use flow::Mac;
use packet::ethertype;
use units::Millis;

/// The most neighbours of a port.
const NEIGHBOURS_MAX: usize = 32;

pub fn run(data: &[u8]) {
    if let Ok(message) = Message::decode(data) {
        let again = Message::decode(&message.encode()).expect("what was written can be read");
        // Texts that are not UTF-8 become longer, and are then truncated.
        let is_short = |m: &Message| {
            [&m.system_name, &m.system_description, &m.port_description].iter().all(|text| text.len() < 255)
        };
        assert!(!is_short(&message) || again == Message { unrecognized: 0, ..message });
    }
    session(data);
}

/// Frames, each behind its length and a time in tenths of a second.
fn session(mut data: &[u8]) {
    let mut now = Millis(1);
    let mut session = Session::new("p1", Mac([2, 0, 0, 0, 0, 1]));
    session.announce(&Announcement { mappings: [(1, 2)].into(), ..Announcement::default() });
    while let Some((&[len, tenths], rest)) = data.split_first_chunk() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(len)));
        data = rest;
        now = now + Millis(u64::from(tenths) * 100);
        let header =
            [&[1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9], &ethertype::LLDP.to_be_bytes()[..]].concat();
        session.receive(&[&header, payload].concat(), now);
        session.run(now);
        assert!(session.deadline() > now);
        let shown = session.show(now);
        assert!(shown.lines().filter(|line| line.starts_with("  chassis: ")).count() <= NEIGHBOURS_MAX);
        session.servers();
        session.services();
    }
}
