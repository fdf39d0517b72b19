//! Makes a [`Rewrite`] from the expected header at the end of a run.

use super::apply::{Kind, Lengths, More, Moved, Rewrite, Word};
use super::checksum::Checksum;
use super::compile::{Run, checksum_of};
use super::expected::{Byte, Expected, HEADER};
use super::patch::{HALF, Patch};
use packet::ipproto;

impl Run {
    /// The rewrite that replaces `ops` edits; `None` if there are none, or if more than one part of the
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
            self.lengths.zip(e.transport).zip(e.ip).map(|(((least, tcp), transport), ip)| Lengths {
                v6: transport.at - ip == 40,
                ip: window.place(ip) as u8,
                l4: window.place(transport.at) as u8,
                least: (transport.at - ip + least) as u8,
                tcp,
            });
        let compared = |at: usize| at.checked_sub(window.before).map_or((0, 0), |at| self.compared[at]);
        let written = |at: usize| {
            let byte = at.checked_sub(window.after).and_then(|at| e.bytes.get(at));
            byte.map_or((0, 0), |b| (!b.keep, b.value))
        };
        let [low, high] = [0, HALF].map(|start| Patch::new(start, compared, written));
        let more = More { compared: words(compared), written: words(written) };
        // A tag that is pushed together with both addresses moves no bytes: the bytes written there are
        // treated as moved.
        let moved = if moved.len == 0 && grown != 0 { Moved { len: 8, ..moved } } else { moved };
        let moved = moved.with_ends(written);
        Some(Rewrite {
            low,
            high,
            is_long: !high.is_nothing(),
            kind: match (grown, lengths) {
                _ if more != More::default() => Kind::Any,
                (0, None) if moved.len == 0 => Kind::Fields,
                (0, Some(_)) if moved.len == 0 => Kind::Transport,
                (_, None) if moved.is_short() => Kind::Tags,
                _ => Kind::Any,
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
            more: (more != More::default()).then(|| Box::new(more)),
        })
    }

    /// The checksum updates: of the IPv4 header, and of the transport header.
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

    /// The update of the checksum at `field` for a change of these ranges (start and length). Old bytes that
    /// the megaflow does not match are read from each packet.
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
            if (0..2).all(|i| before[i].sure & changed[i] == changed[i]) {
                let gone = [before[0].bits & changed[0], before[1].bits & changed[1]];
                constant += u64::from(!u16::from_ne_bytes(gone));
                (0..2).for_each(|i| self.compared[from[i]].0 |= changed[i]);
                (0..2).for_each(|i| self.compared[from[i]].1 |= gone[i]);
            } else {
                add_old(&mut old, window.old(from[0]), changed);
            }
        }
        while constant >> 16 != 0 {
            constant = (constant >> 16) + (constant & 0xffff);
        }
        let at = e.bytes[field]
            .from
            .map(|from| window.old(from.into()))
            .filter(|at| *at == window.place(field))?;
        Some(Checksum { at: at as u8, udp: false, constant: constant as u16, old: old.into() })
    }
}

/// Adds two bytes to the words that are summed, aligned to the words that the checksum sums.
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

/// Offsets in the window: see [`Rewrite`].
#[derive(Clone, Copy)]
struct Window {
    before: usize,
    after: usize,
}

impl Window {
    /// Offset of a byte of the packet before the rewrite.
    fn old(self, at: usize) -> usize {
        at + self.before
    }

    /// Offset of a byte of the packet after the rewrite.
    fn place(self, at: usize) -> usize {
        at + self.after
    }
}

/// The bytes that must be moved; `None` if they are more than one part of the header.
fn moved(e: &Expected, window: Window) -> Option<Moved> {
    let place = |(to, byte): (usize, &Byte)| {
        let from = byte.from.filter(|_| byte.keep != 0).map(|from| window.old(from.into()));
        from.map(|from| (from, window.place(to)))
    };
    let kept = || e.bytes.iter().enumerate().filter_map(place);
    let Some((from, to)) = kept().find(|(from, to)| from != to) else { return Some(Moved::default()) };
    let last = kept().rfind(|(from, to)| from != to)?;
    let len = last.1 + 1 - to;
    let one_part = kept().all(|(f, t)| if (to..to + len).contains(&t) { t + from == f + to } else { f == t });
    one_part.then_some(Moved { from: from as u8, to: to as u8, len: len as u8, ..Moved::default() })
}

impl Moved {
    /// Adds the bytes that are written at the destination of the move.
    fn with_ends(self, written: impl Fn(usize) -> (u8, u8)) -> Moved {
        let end = |at: u8| {
            let bytes: [(u8, u8); 8] = std::array::from_fn(|i| written(usize::from(at) + i));
            (!u64::from_ne_bytes(bytes.map(|b| b.0)), u64::from_ne_bytes(bytes.map(|b| b.1)))
        };
        Moved { ends: [end(self.to), end(self.last(self.to))], ..self }
    }
}

/// Words that cover all bytes beyond the patches for which `bits` gives a mask.
fn words(bits: impl Fn(usize) -> (u8, u8)) -> Box<[Word]> {
    let mut words = Vec::new();
    let mut at = 2 * HALF;
    while let Some(start) = (at..HEADER).find(|at| bits(*at).0 != 0) {
        let all: [(u8, u8); 8] = std::array::from_fn(|i| bits(start + i));
        let keep = u64::from_ne_bytes(all.map(|(mask, _)| !mask));
        words.push(Word { at: start as u8, keep, value: u64::from_ne_bytes(all.map(|(_, value)| value)) });
        at = start + 8;
    }
    words.into()
}
