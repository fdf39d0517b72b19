//! From the expected header at the end of a run to its [`Rewrite`].

use super::compile::{Run, checksum_of};
use super::expected::{Byte, Expected, HEADER};
use super::{COMPARED, Lengths, More, Moved, Rewrite, Sum, WRITTEN, Word};
use packet::ipproto;

impl Run {
    /// The rewrite that stands for `ops` edits; `None`: for none, or the header would be moved in more than one part.
    pub(super) fn finish(mut self, e: &Expected, ops: usize) -> Option<Rewrite> {
        if ops == 0 {
            return None;
        }
        let grown = self.grown(e);
        let window = Window { before: grown.max(0) as usize, after: (-grown).max(0) as usize };
        let moved = moved(e, window)?;
        let (sums, fields) = self.sums(e, window)?;
        let lengths =
            self.lengths.zip(e.transport).zip(e.ip).map(|(((least, tcp), transport), ip)| Lengths {
                v6: transport.at - ip == 40,
                ip: window.place(ip) as u8,
                l4: window.place(transport.at) as u8,
                least: (transport.at - ip + least) as u8,
                tcp,
            });
        let compared = |at: usize| at.checked_sub(window.before).map_or((0, 0), |at| self.compared[at]);
        let compared = words(compared, &[]);
        let written = |at: usize| at.checked_sub(window.after).and_then(|at| e.bytes.get(at));
        let written = words(|at| written(at).map_or((0, 0), |b| (!b.keep, b.value)), &fields);
        let more = More {
            compared: compared.iter().skip(COMPARED).copied().collect(),
            written: written.iter().skip(WRITTEN).copied().collect(),
        };
        let word = |words: &[Word], i: usize| words.get(i).copied().unwrap_or(Word::NOTHING);
        Some(Rewrite {
            compared: std::array::from_fn(|i| word(&compared, i)),
            written: std::array::from_fn(|i| word(&written, i)),
            written_count: written.len().min(WRITTEN) as u8,
            sum_count: sums.iter().flatten().count() as u8,
            sums: in_front(sums),
            ops: ops as u8,
            grown: grown as i16,
            min_len: self.min_len as u16,
            simple: grown == 0 && moved == Moved::default() && lengths.is_none() && more == More::default(),
            front: window.before as u8,
            done: u64::from(!self.undone),
            lengths,
            moved,
            more: (more != More::default()).then(|| Box::new(more)),
        })
    }

    /// The sums, and where their fields are in the window.
    fn sums(&mut self, e: &Expected, window: Window) -> Option<([Option<Sum>; 2], Vec<usize>)> {
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
            sums[1] = Some(Sum { udp: transport.proto == ipproto::UDP, ..sum });
        }
        let fields = sums.iter().flatten().map(|sum| usize::from(sum.at)).collect();
        Some((sums, fields))
    }

    /// What a change of these ranges (start and length) adds to the checksum at `field`. Where the megaflow does not say
    /// what the old bytes are, each packet does.
    fn sum(&mut self, e: &Expected, window: Window, field: usize, ranges: &[(usize, usize)]) -> Option<Sum> {
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
        Some(Sum { at: at as u8, udp: false, constant: constant as u16, old: old.into() })
    }
}

/// Adds two bytes to the words that are summed. Each begins where one of the checksum's own words does.
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

/// The sums that there are, in front of the places of those that there are not.
fn in_front(sums: [Option<Sum>; 2]) -> [Sum; 2] {
    let mut sums = sums.into_iter().flatten();
    std::array::from_fn(|_| sums.next().unwrap_or_default())
}

/// Where bytes are in the window: see [`Rewrite`].
#[derive(Clone, Copy)]
struct Window {
    before: usize,
    after: usize,
}

impl Window {
    /// A byte of the packet as it was.
    fn old(self, at: usize) -> usize {
        at + self.before
    }

    /// A byte of the packet as it will be.
    fn place(self, at: usize) -> usize {
        at + self.after
    }
}

/// The bytes that must be moved; `None`: more than one part of the header.
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
    one_part.then_some(Moved { from: from as u8, to: to as u8, len: len as u8 })
}

/// Words that cover all bytes of which `bits` gives a mask. They keep off the `fields` (two bytes each) where they can:
/// a word is loaded soon after a field was stored, and what is stored in part is not forwarded.
fn words(bits: impl Fn(usize) -> (u8, u8), fields: &[usize]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = (at..HEADER).find(|at| bits(*at).0 != 0) {
        let mut start = first;
        let field = fields.iter().copied().find(|field| (start..start + 8).contains(field));
        if let Some(field) = field.filter(|field| *field > first && *field >= 8) {
            start = start.min(field - 8);
        }
        let all: [(u8, u8); 8] = std::array::from_fn(|i| bits(start + i));
        let keep = u64::from_ne_bytes(all.map(|(mask, _)| !mask));
        words.push(Word { at: start as u8, keep, value: u64::from_ne_bytes(all.map(|(_, value)| value)) });
        at = start + 8;
    }
    words
}
