//! Checks select groups whose hash the datapath computes. The two switches use different hash functions, so they may select
//! different buckets for a packet. But each switch must select the same bucket for packets with equal hashed fields.

use std::io;
use std::time::Instant;

use crate::normalize;
use crate::packet::Packet;
use crate::pair::{Difference, Pair, SETTLE_TIME};
use crate::sent;

/// Maximum number of times that a packet is sent again, until it leaves by the same ports twice in a row.
const TRIES: usize = 3;

/// Returns whether the datapath hashes the packet of this trace.
pub fn is_hashed(trace: &str) -> bool {
    trace.lines().filter_map(|line| line.strip_prefix(normalize::ACTIONS)).any(|list| list.contains("hash("))
}

/// Sends a packet until it leaves by the same ports twice in a row, because a bridge may learn an address from the first ones.
/// Then sends it with another payload and without megaflows; this must not change the ports.
pub fn differs(pair: &mut Pair, packet: &Packet) -> io::Result<Option<Difference>> {
    let mut first = send(pair, packet, None)?;
    for _ in 0..TRIES {
        let next = send(pair, packet, Some(&first))?;
        let settled = next == first;
        first = next;
        if settled {
            break;
        }
    }
    pair.ctl("revalidator/purge", &[])?;
    let again = send(pair, &with_other_payload(packet), Some(&first))?;
    let text = |ports: &[Vec<u32>; 2]| {
        format!("p{} <- {}\nports {ports:?} (stock, ours)", packet.port, packet.hex())
    };
    Ok((first != again).then(|| Difference { what: "bucket", stock: text(&first), ours: text(&again) }))
}

/// Sends a packet to both switches. Returns the ports by which it leaves the stock switch and Sluice. If `wanted` is given, it
/// waits for these ports, for a limited time.
fn send(pair: &mut Pair, packet: &Packet, wanted: Option<&[Vec<u32>; 2]>) -> io::Result<[Vec<u32>; 2]> {
    pair.both(|switch| switch.outputs())?;
    let before = pair.lookups()?;
    pair.ctl("netdev-dummy/receive", &[&format!("p{}", packet.port), &packet.hex()])?;
    let deadline = Instant::now() + SETTLE_TIME / 4;
    let mut frames = [Vec::new(), Vec::new()];
    loop {
        let now = pair.lookups()?;
        let (stock, ours) = pair.both(|switch| switch.outputs())?;
        frames[0].extend(stock);
        frames[1].extend(ours);
        let ports = [0, 1].map(|n| sent::ports_of_frames(frames[n].iter().map(String::as_str)));
        // There are two lookups: one for the packet, and one after recirculation with its hash.
        let done = now.0.all() > before.0.all() + 1 && now.1.all() > before.1.all() + 1;
        let right = wanted.is_none_or(|wanted| *wanted == ports);
        if done && right || Instant::now() > deadline {
            return Ok(ports);
        }
    }
}

/// Returns the packet with another payload.
fn with_other_payload(packet: &Packet) -> Packet {
    let mut other = packet.clone();
    if let Some(payload) = other.bytes.last_chunk_mut::<4>().filter(|payload| *payload == b"data") {
        *payload = *b"DATA";
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_datapath_hashes_what_its_actions_say() {
        let trace = |list: &str| format!("multipath(eth_src,0,iter_hash(\n{}{list}", normalize::ACTIONS);
        assert!(
            is_hashed(&trace("hash(sym_l4(0)),recirc(0x1)"))
                && is_hashed(&trace("1,clone(hash(l4(7)),recirc(0x1))"))
        );
        assert!(!is_hashed(&trace("1,2")));
    }

    #[test]
    fn only_a_payload_is_changed() {
        let packet = |bytes: &[u8]| Packet { port: 1, bytes: bytes.to_vec() };
        assert_eq!(with_other_payload(&packet(b"xxdata")).bytes, b"xxDATA");
        assert_eq!(with_other_payload(&packet(b"xxdat")).bytes, b"xxdat");
    }
}
