//! Creates a [`Rewrite`] from the expected header at the end of a run.

use super::apply::{ByteMove, ExtraWords, LengthChecks, Rewrite, RewriteKind, Word};
use super::checksum::Checksum;
use super::compile::{Run, checksum_of};
use super::expected::{Byte, Expected, HEADER};
use super::patch::{PATCH_LEN, Patch};
use packet::ipproto;

impl Run {
    /// Returns the rewrite that replaces `ops` edits. `None` if there are no edits, or if more than one part of the
    /// header would have to be moved.
    pub(super) fn finish(mut self, e: &Expected, ops: usize) -> Option<Rewrite> {
        if ops == 0 {
            return None;
        }
        let grown = self.grown(e);
        let window = Window { before: grown.max(0) as usize, after: (-grown).max(0) as usize };
        let moved = moved(e, window)?;
        let sums = self.sums(e, window)?;
        let lengths =
            self.lengths.zip(e.transport).zip(e.ip).map(|(((least, tcp), transport), ip)| LengthChecks {
                v6: transport.at - ip == 40,
                ip: window.offset_after(ip) as u8,
                l4: window.offset_after(transport.at) as u8,
                least: (transport.at - ip + least) as u8,
                tcp,
            });
        let compared = |at: usize| at.checked_sub(window.before).map_or((0, 0), |at| self.compared[at]);
        let written = |at: usize| {
            let byte = at.checked_sub(window.after).and_then(|at| e.bytes.get(at));
            byte.map_or((0, 0), |b| (!b.keep, b.value))
        };
        let [low, high] = [0, PATCH_LEN].map(|start| Patch::new(start, compared, written));
        let more = ExtraWords { compared: words(compared), written: words(written) };
        // A tag that is pushed together with both addresses moves no bytes. So the eight bytes that are written there
        // are treated as a move.
        let moved = if moved.len == 0 && grown != 0 { ByteMove { len: 8, ..moved } } else { moved };
        let moved = moved.with_ends(written);
        Some(Rewrite {
            low,
            high,
            is_long: !high.is_nothing(),
            kind: match (grown, lengths) {
                _ if more != ExtraWords::default() => RewriteKind::Any,
                (0, None) if moved.len == 0 => RewriteKind::Fields,
                (0, Some(_)) if moved.len == 0 => RewriteKind::Transport,
                (_, None) if moved.is_short() => RewriteKind::Tags,
                _ => RewriteKind::Any,
            },
            sum_count: sums.iter().flatten().count() as u8,
            sums: in_front(sums),
            ops: ops as u8,
            grown: grown as i16,
            min_len: self.min_len as u16,
            front: window.before as u8,
            refuses_offload_state: !self.allows_offload_state,
            lengths,
            moved,
            more: (more != ExtraWords::default()).then(|| Box::new(more)),
        })
    }

    /// Returns the checksum updates: of the IPv4 header, and of the transport header.
    fn sums(&mut self, e: &Expected, window: Window) -> Option<[Option<Checksum>; 2]> {
        let mut sums = [None, None];
        if self.ip_sum {
            let ip = e.ip?;
            sums[0] = Some(self.sum(e, window, ip + 10, &[(ip, 10), (ip + 12, 8)])?);
        }
        if let Some(with_addresses) = self.l4_sum {
            let (ip, transport) = (e.ip?, e.transport?);
            let (at, _) = checksum_of(transport.proto)?;
            let addresses = match (with_addresses, transport.at - ip) {
                (false, _) => (ip, 0),
                (true, 20) => (ip + 12, 8),
                (true, _) => (ip + 8, 32),
            };
            let covered = [addresses, (transport.at, at.min(4))];
            let sum = self.sum(e, window, transport.at + at, &covered)?;
            sums[1] = Some(Checksum { udp: transport.proto == ipproto::UDP, ..sum });
        }
        Some(sums)
    }

    /// Returns the update of the checksum at offset `field` for changes in these ranges (start and length). Old bytes
    /// that the megaflow does not match are read from each packet.
    fn sum(
        &mut self,
        e: &Expected,
        window: Window,
        field: usize,
        ranges: &[(usize, usize)],
    ) -> Option<Checksum> {
        let mut constant = 0u64;
        let mut old = Vec::new();
        for at in ranges.iter().flat_map(|&(start, len)| (start..start + len).step_by(2)) {
            let pair = [e.bytes[at], e.bytes[at + 1]];
            let changed = pair.map(|b| !b.keep);
            if changed == [0; 2] {
                continue;
            }
            constant += u64::from(u16::from_ne_bytes(pair.map(|b| b.value)));
            let from = [pair[0].from?, pair[1].from?].map(usize::from);
            let before = from.map(|from| self.before[from]);
            if (0..2).all(|i| before[i].certain & changed[i] == changed[i]) {
                let gone = [before[0].bits & changed[0], before[1].bits & changed[1]];
                constant += u64::from(!u16::from_ne_bytes(gone));
                (0..2).for_each(|i| self.compared[from[i]].0 |= changed[i]);
                (0..2).for_each(|i| self.compared[from[i]].1 |= gone[i]);
            } else {
                add_old(&mut old, window.offset_before(from[0]), changed);
            }
        }
        while constant >> 16 != 0 {
            constant = (constant >> 16) + (constant & 0xffff);
        }
        let at = e.bytes[field]
            .from
            .map(|from| window.offset_before(from.into()))
            .filter(|at| *at == window.offset_after(field))?;
        Some(Checksum { at: at as u8, udp: false, constant: constant as u16, old: old.into() })
    }
}

/// Adds two bytes to the words of old bytes, at an even distance from the start of each word, as the checksum sums
/// pairs.
fn add_old(old: &mut Vec<(u8, u64)>, at: usize, bits: [u8; 2]) {
    if old.last().is_none_or(|(start, _)| at + 2 > usize::from(*start) + 8) {
        old.push((at as u8, 0));
    }
    if let Some((start, mask)) = old.last_mut() {
        let mut bytes = mask.to_ne_bytes();
        bytes[at - usize::from(*start)..][..2].copy_from_slice(&bits);
        *mask = u64::from_ne_bytes(bytes);
    }
}

/// Puts existing sums first in the array.
fn in_front(sums: [Option<Checksum>; 2]) -> [Checksum; 2] {
    let mut sums = sums.into_iter().flatten();
    std::array::from_fn(|_| sums.next().unwrap_or_default())
}

/// The sizes that convert packet offsets into offsets in the window: see [`Rewrite`].
#[derive(Clone, Copy)]
struct Window {
    before: usize,
    after: usize,
}

impl Window {
    /// Returns the window offset of a byte of the packet before the rewrite.
    fn offset_before(self, at: usize) -> usize {
        at + self.before
    }

    /// Returns the window offset of a byte of the packet after the rewrite.
    fn offset_after(self, at: usize) -> usize {
        at + self.after
    }
}

/// Returns the bytes that must be moved; `None` if more than one part of the header must be moved.
fn moved(e: &Expected, window: Window) -> Option<ByteMove> {
    let place = |(to, byte): (usize, &Byte)| {
        let from = byte.from.filter(|_| byte.keep != 0).map(|from| window.offset_before(from.into()));
        from.map(|from| (from, window.offset_after(to)))
    };
    let kept = || e.bytes.iter().enumerate().filter_map(place);
    let Some((from, to)) = kept().find(|(from, to)| from != to) else { return Some(ByteMove::default()) };
    let last = kept().rfind(|(from, to)| from != to)?;
    let len = last.1 + 1 - to;
    let one_part = kept().all(|(f, t)| if (to..to + len).contains(&t) { t + from == f + to } else { f == t });
    one_part.then_some(ByteMove { from: from as u8, to: to as u8, len: len as u8, ..ByteMove::default() })
}

impl ByteMove {
    /// Adds the bytes that are written at the destination of the move.
    fn with_ends(self, written: impl Fn(usize) -> (u8, u8)) -> ByteMove {
        let end = |at: u8| {
            let bytes: [(u8, u8); 8] = std::array::from_fn(|i| written(usize::from(at) + i));
            (!u64::from_ne_bytes(bytes.map(|b| b.0)), u64::from_ne_bytes(bytes.map(|b| b.1)))
        };
        ByteMove { ends: [end(self.to), end(self.last(self.to))], ..self }
    }
}

/// Returns words that cover all bytes after the patches for which `bits` returns a mask.
fn words(bits: impl Fn(usize) -> (u8, u8)) -> Box<[Word]> {
    let mut words = Vec::new();
    let mut at = 2 * PATCH_LEN;
    while let Some(start) = (at..HEADER).find(|at| bits(*at).0 != 0) {
        let all: [(u8, u8); 8] = std::array::from_fn(|i| bits(start + i));
        let keep = u64::from_ne_bytes(all.map(|(mask, _)| !mask));
        words.push(Word { at: start as u8, keep, value: u64::from_ne_bytes(all.map(|(_, value)| value)) });
        at = start + 8;
    }
    words.into()
}
