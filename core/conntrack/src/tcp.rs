//! TCP: the state of both endpoints, and the check whether a segment can belong to the connection.
//!
//! The rules are those of G. van Rooij, "Real Stateful TCP Packet Filtering in IP Filter" (2001), as Open vSwitch's datapath applies them:
//! the sequence numbers of an endpoint must be within the window that the other endpoint has offered, or at most one window before that
//! window (retransmissions). A connection whose beginning was not seen is tracked from its first segment that is seen.

use crate::record::StateWords;
use crate::timeout::Timeout;
use crate::update::Update;
use packet::Tcp;

/// Flags of a TCP header.
const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const PSH: u16 = 0x08;
const ACK: u16 = 0x10;
const URG: u16 = 0x20;

/// By how much an acknowledgement number may be off, without window scaling: the largest window that a header can offer, and one segment.
const ACK_SLACK: i32 = 0xffff + 1500;
/// Maximum window scale (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;

/// The TCP state of one endpoint. These are the states that Open vSwitch names; no endpoint gets `Listen`, `SynRecv`, `CloseWait`,
/// `FinWait1` or `LastAck`. [`update`] compares states by their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum TcpState {
    #[default]
    Closed,
    Listen,
    SynSent,
    SynRecv,
    Established,
    CloseWait,
    FinWait1,
    Closing,
    LastAck,
    FinWait2,
    TimeWait,
}

impl TcpState {
    /// The state with this index in [`TcpState::ALL`].
    #[inline(always)]
    fn of(number: u64) -> TcpState {
        TcpState::ALL.get(number as usize).copied().unwrap_or_default()
    }
}

/// The window scaling that an endpoint has announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    /// No window scaling.
    #[default]
    None,
    /// Windows are shifted by this number of bits.
    By(u8),
    /// Unknown, because the endpoint's SYN was not seen.
    Unknown,
}

impl Scale {
    fn bits(self) -> u8 {
        match self {
            Scale::By(bits) => bits,
            _ => 0,
        }
    }

    /// The scale in five bits.
    fn code(self) -> u64 {
        match self {
            Scale::By(bits) => u64::from(bits.min(MAX_SCALE)),
            Scale::None => NO_SCALE,
            Scale::Unknown => UNKNOWN_SCALE,
        }
    }
}

/// Encodes [`Scale::None`] in five bits; a shift is at most 14.
const NO_SCALE: u64 = 30;
/// Encodes [`Scale::Unknown`] in five bits.
const UNKNOWN_SCALE: u64 = 31;

/// The fields of a segment that connection tracking uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segment {
    flags: u16,
    seq: u32,
    ack: u32,
    window: u16,
    /// The window scale option, which is valid only with SYN.
    scale: Scale,
    /// Bytes of payload.
    len: u32,
}

impl Segment {
    pub(crate) fn new(tcp: &Tcp<'_>, options: &[u8], len: u32) -> Segment {
        let flags = tcp.flags();
        let scale = if flags & SYN != 0 { scale_of(options) } else { Scale::None };
        Segment { flags, seq: tcp.seq(), ack: tcp.ack(), window: tcp.window(), scale, len }
    }

    /// Reads a segment with ACK and without SYN, FIN and RST. `None`: the segment has other flags.
    #[inline(always)]
    pub(crate) fn of_data(tcp: &Tcp<'_>, len: u32) -> Option<Segment> {
        let flags = tcp.flags();
        let (seq, ack, window) = (tcp.seq(), tcp.ack(), tcp.window());
        let usual = flags & (SYN | FIN | RST | ACK) == ACK;
        usual.then_some(Segment { flags, seq, ack, window, scale: Scale::None, len })
    }

    #[inline(always)]
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether the combination of flags is invalid.
    fn has_invalid_flags(&self) -> bool {
        let contradicts = self.has(SYN) && self.has(RST | FIN);
        let says_nothing = !self.has(SYN | ACK | RST);
        let lacks_ack = !self.has(ACK) && self.has(FIN | PSH | URG);
        contradicts || says_nothing || lacks_ack
    }

    /// Returns whether a connection may be tracked from this segment on: its flags are valid, and it is not a SYN-ACK.
    pub(crate) fn may_begin(&self) -> bool {
        !(self.has_invalid_flags() || self.has(SYN) && self.has(ACK))
    }

    /// Number of sequence numbers that the segment occupies (RFC 9293 §3.4): bytes of payload, plus one each for SYN and FIN.
    fn extent(&self) -> u32 {
        self.len + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

/// Reads the window scale option (RFC 7323 §2.2).
fn scale_of(options: &[u8]) -> Scale {
    let mut rest = options;
    loop {
        match *rest {
            [1, ref after @ ..] => rest = after,
            [3, _, bits, ..] => return Scale::By(bits.min(MAX_SCALE)),
            [0, ..] | [] | [_] => return Scale::None,
            [_, len, ..] => match rest.get(usize::from(len.max(2))..) {
                Some(after) => rest = after,
                None => return Scale::None,
            },
        }
    }
}

/// What is known of one endpoint: its TCP state, its scale and its sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TcpEndpoint {
    pub(crate) state: TcpState,
    pub(crate) scale: Scale,
    /// The sequence number after the last byte that the endpoint has sent. While only the segment that began the connection was seen: the
    /// sequence number of that segment, as in Open vSwitch.
    sent: u32,
    /// Maximum sequence number that the endpoint may send: the other endpoint's acknowledgement plus its window. The value 1 means that it is
    /// not known.
    limit: u32,
    /// The largest window that the endpoint has offered, as in the header, that is, not scaled.
    window: u16,
}

impl TcpEndpoint {
    /// State, scale and window packed into 25 bits.
    fn packed(&self) -> u64 {
        self.state as u64 | self.scale.code() << 4 | u64::from(self.window) << 9
    }

    #[inline(always)]
    fn unpacked(bits: u64, sent: u32, limit: u32) -> TcpEndpoint {
        let scale = match bits >> 4 & 31 {
            NO_SCALE => Scale::None,
            UNKNOWN_SCALE => Scale::Unknown,
            by => Scale::By(by as u8),
        };
        TcpEndpoint { state: TcpState::of(bits & 15), scale, sent, limit, window: (bits >> 9) as u16 }
    }
}

/// Packs both endpoints into the state words of a record. Data that packets of one direction change together (the sender's `sent`, the
/// receiver's `limit`) is in one word.
pub(crate) fn pack([first, second]: &[TcpEndpoint; 2]) -> StateWords {
    let pair = |sent: u32, limit: u32| u64::from(sent) << 32 | u64::from(limit);
    let states = first.packed() | second.packed() << 25;
    [states, pair(first.sent, second.limit), pair(second.sent, first.limit)]
}

/// The reverse of [`pack`].
#[inline(always)]
pub(crate) fn unpack([states, forward, back]: StateWords) -> [TcpEndpoint; 2] {
    let half = |word: u64| ((word >> 32) as u32, word as u32);
    let ((first_sent, second_limit), (second_sent, first_limit)) = (half(forward), half(back));
    let second = TcpEndpoint::unpacked(states >> 25 & 0x1ff_ffff, second_sent, second_limit);
    [TcpEndpoint::unpacked(states & 0x1ff_ffff, first_sent, first_limit), second]
}

/// The state of a connection that a segment begins: first its sender, then the other endpoint.
pub(crate) fn begin(segment: &Segment) -> [TcpEndpoint; 2] {
    let scale = if segment.has(SYN) { segment.scale } else { Scale::Unknown };
    let first = TcpEndpoint {
        state: TcpState::SynSent,
        scale,
        sent: segment.seq,
        limit: segment.seq.wrapping_add(segment.extent()).wrapping_add(1),
        // The window of a segment with SYN is not scaled, but later windows are: it is stored divided by the scale.
        window: segment.window.max(1).div_ceil(1 << scale.bits()),
    };
    let other_scale = if segment.has(SYN) { Scale::None } else { Scale::Unknown };
    [first, TcpEndpoint { scale: other_scale, limit: 1, window: 1, ..TcpEndpoint::default() }]
}

/// Returns whether sequence number `a` equals `b` or comes after it. Sequence numbers wrap around.
fn seq_geq(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// Checks a segment from `src` to `dst` and updates both endpoints. `strict`: sequence numbers are checked.
pub(crate) fn update(
    src: &mut TcpEndpoint,
    dst: &mut TcpEndpoint,
    segment: &Segment,
    strict: bool,
) -> Update {
    use TcpState::{Closed, FinWait2, SynSent};
    if segment.has_invalid_flags() {
        return Update::Invalid;
    }
    if segment.has(SYN) && !segment.has(ACK) {
        if src.state >= FinWait2 && dst.state >= FinWait2 {
            (src.state, dst.state) = (Closed, Closed);
            return Update::Restart;
        }
        if src.state <= SynSent {
            src.state = SynSent;
            return Update::New(Timeout::TcpFirst);
        }
    }
    let prepared = PreparedSegment::prepare(src, dst, segment);
    if !strict || prepared.is_in_window(src, dst) {
        prepared.advance(src, dst);
        prepared.change_states(src, dst);
        Update::Valid(Some(timeout(src.state, dst.state)))
    } else if prepared.is_tolerable(src, dst) {
        // The lifetime of the connection is not extended, and only FIN and RST change states.
        prepared.advance(src, dst);
        prepared.apply_fin_rst(src, dst);
        Update::Valid(None)
    } else {
        Update::Invalid
    }
}

/// Window shifts of sender and receiver, from their scales in coded form ([`Scale::code`]). If both scales are unknown, because no SYN was
/// seen, the maximum is assumed. If only one is unknown, or one endpoint did not announce scaling, neither window is scaled (RFC 7323 §2.2).
#[inline(always)]
fn shifts(src: u64, dst: u64) -> [u8; 2] {
    match (src, dst) {
        _ if src.max(dst) <= MAX_SCALE.into() => [src as u8, dst as u8],
        (UNKNOWN_SCALE, UNKNOWN_SCALE) => [MAX_SCALE, MAX_SCALE],
        _ => [0, 0],
    }
}

/// [`update`] for the fast path: works on the packed words of a record, and only for a [data segment](Segment::of_data) in the window of
/// a connection that is established in both directions. `None`: use [`update`].
#[inline(always)]
pub(crate) fn update_established(
    words: StateWords,
    segment: &Segment,
    reply: bool,
    strict: bool,
) -> Option<StateWords> {
    // The states of both endpoints in the packed word (see [`pack`]).
    const STATES: u64 = 15 | 15 << 25;
    const ESTABLISHED: u64 = (TcpState::Established as u64) << 25 | TcpState::Established as u64;
    let [states, forward, back] = words;
    if states & STATES != ESTABLISHED {
        return None;
    }
    let (src_at, dst_at) = if reply { (25, 0) } else { (0, 25) };
    let (own, other) = if reply { (back, forward) } else { (forward, back) };
    let (sent, dst_limit, dst_sent, limit) =
        ((own >> 32) as u32, own as u32, (other >> 32) as u32, other as u32);
    let [shift, dst_shift] = shifts(states >> (src_at + 4) & 31, states >> (dst_at + 4) & 31);
    let window_of = |at: u32| (states >> (at + 9)) as u16;
    let &Segment { seq, ack, window, len, .. } = segment;
    let (seq, end) = if len == 0 { (sent, sent) } else { (seq, seq.wrapping_add(len)) };
    let window_before = u32::from(window_of(dst_at)) << dst_shift;
    let skew = dst_sent.wrapping_sub(ack) as i32;
    let in_window = seq_geq(limit, end)
        && seq_geq(seq, sent.wrapping_sub(window_before))
        && (-ACK_SLACK..=ACK_SLACK << shift).contains(&skew);
    if strict && !in_window {
        return None;
    }
    let mut states = states;
    if window > window_of(src_at) {
        states = states & !(0xffff << (src_at + 9)) | u64::from(window) << (src_at + 9);
    }
    let offered = u32::from(window) << shift;
    let sent = if seq_geq(end, sent) { end } else { sent };
    let grown = seq_geq(ack.wrapping_add(offered), dst_limit);
    let dst_limit = if grown { ack.wrapping_add(offered.max(1)) } else { dst_limit };
    let own = u64::from(sent) << 32 | u64::from(dst_limit);
    Some(if reply { [states, forward, own] } else { [states, own, back] })
}

/// A segment, prepared for the check: a number that it does not carry is taken from the state of the endpoints.
struct PreparedSegment<'a> {
    segment: &'a Segment,
    /// The first sequence number. If the segment occupies no sequence number: the sender's current one.
    seq: u32,
    /// The sequence number after the last one.
    end: u32,
    ack: u32,
    window: u16,
    /// By how much the acknowledgement is behind what the other endpoint has sent.
    skew: i32,
    /// Window scales of sender and receiver.
    shift: [u8; 2],
}

impl<'a> PreparedSegment<'a> {
    /// Prepares a segment from `src` to `dst`. If it is the first segment of `src` that was seen, initialises the state of `src`.
    fn prepare(src: &mut TcpEndpoint, dst: &mut TcpEndpoint, segment: &'a Segment) -> PreparedSegment<'a> {
        let shift = if segment.has(SYN) { [0, 0] } else { shifts(src.scale.code(), dst.scale.code()) };
        let end = segment.seq.wrapping_add(segment.extent());
        let (seq, ack, window) = (segment.seq, segment.ack, segment.window);
        let mut prepared = PreparedSegment { segment, seq, end, ack, window, skew: 0, shift };
        let picked_up = src.state < TcpState::SynSent && prepared.init_sender(src, dst);
        // There is no acknowledgement number. Some stacks send 0 with RST.
        if !segment.has(ACK) || segment.ack == 0 && segment.has(RST) {
            prepared.ack = dst.sent;
        }
        if segment.extent() == 0 {
            (prepared.seq, prepared.end) = (src.sent, src.sent);
        }
        if !picked_up {
            prepared.skew = dst.sent.wrapping_sub(prepared.ack) as i32;
        }
        prepared
    }

    /// Initialises the state of the sender from its first segment that was seen, and the window scales of both endpoints. Returns whether the
    /// sender's limit was set from this segment; then the acknowledgement is not checked.
    fn init_sender(&mut self, src: &mut TcpEndpoint, dst: &mut TcpEndpoint) -> bool {
        if self.segment.has(SYN)
            && let Scale::By(other) = dst.scale
        {
            src.scale = self.segment.scale;
            match src.scale {
                Scale::By(own) => {
                    self.shift = [own, other];
                    self.window = self.window.div_ceil(1 << own);
                }
                _ => {
                    // Scaling requires that both endpoints announce it (RFC 7323 §2.2).
                    dst.window = (u32::from(dst.window) << other).min(u16::MAX.into()) as u16;
                    dst.scale = Scale::None;
                }
            }
        }
        src.sent = self.segment.seq;
        src.state = TcpState::SynSent;
        let limit = self.end.wrapping_add((u32::from(dst.window) << self.shift[1]).max(1));
        let picked_up = src.limit == 1 || seq_geq(limit, src.limit);
        if picked_up {
            src.limit = limit;
        }
        src.window = src.window.max(self.window);
        picked_up
    }

    fn is_in_window(&self, src: &TcpEndpoint, dst: &TcpEndpoint) -> bool {
        let window_before = u32::from(dst.window) << self.shift[1];
        let seq = self.segment.seq;
        // A reset is valid only if its sequence number is the sender's current one, plus or minus one.
        let reset_fits = !self.segment.has(RST) || seq.wrapping_sub(src.sent).wrapping_add(1) <= 2;
        seq_geq(src.limit, self.end)
            && seq_geq(self.seq, src.sent.wrapping_sub(window_before))
            && (-ACK_SLACK..=ACK_SLACK << self.shift[0]).contains(&self.skew)
            && reset_fits
    }

    /// Returns whether a segment outside the window is tolerated: while a connection opens or is closed, both endpoints may answer in any
    /// order.
    fn is_tolerable(&self, src: &TcpEndpoint, dst: &TcpEndpoint) -> bool {
        let loose = dst.state < TcpState::SynSent
            || dst.state >= TcpState::FinWait2
            || src.state >= TcpState::FinWait2;
        let slack = ACK_SLACK as u32;
        loose
            && seq_geq(src.limit.wrapping_add(slack), self.end)
            && seq_geq(self.seq, src.sent.wrapping_sub(slack))
    }

    fn advance(&self, src: &mut TcpEndpoint, dst: &mut TcpEndpoint) {
        src.window = src.window.max(self.window);
        if seq_geq(self.end, src.sent) {
            src.sent = self.end;
        }
        let offered = u32::from(self.window) << self.shift[0];
        if seq_geq(self.ack.wrapping_add(offered), dst.limit) {
            dst.limit = self.ack.wrapping_add(offered.max(1));
        }
    }

    fn change_states(&self, src: &mut TcpEndpoint, dst: &mut TcpEndpoint) {
        if self.segment.has(FIN) && src.state < TcpState::Closing {
            src.state = TcpState::Closing;
        }
        if self.segment.has(ACK) {
            dst.state = match dst.state {
                TcpState::SynSent => TcpState::Established,
                TcpState::Closing => TcpState::FinWait2,
                other => other,
            };
        }
        self.apply_fin_rst(src, dst);
    }

    /// Changes states for FIN and RST, also if the segment is only tolerated.
    fn apply_fin_rst(&self, src: &mut TcpEndpoint, dst: &mut TcpEndpoint) {
        if self.segment.has(FIN) && src.state < TcpState::Closing {
            src.state = TcpState::Closing;
        }
        if self.segment.has(RST) {
            (src.state, dst.state) = (TcpState::TimeWait, TcpState::TimeWait);
        }
    }
}

/// Returns whether the connection is not yet established or is closing: its removal loses hardly any data.
pub(crate) fn is_dispensable([a, b]: &[TcpEndpoint; 2]) -> bool {
    timeout(a.state, b.state) != Timeout::TcpEstablished
}

/// The timeout of a connection whose endpoints have these states.
fn timeout(a: TcpState, b: TcpState) -> Timeout {
    let (least, most) = (a.min(b), a.max(b));
    if least >= TcpState::FinWait2 {
        Timeout::TcpClosed
    } else if least >= TcpState::Closing {
        Timeout::TcpFinWait
    } else if least < TcpState::Established {
        Timeout::TcpOpening
    } else if most >= TcpState::Closing {
        Timeout::TcpClosing
    } else {
        Timeout::TcpEstablished
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn established_endpoint()(
            scale in 0..=17u8,
            near: (u8, u8),
            sent in prop::sample::select(vec![0, 5, 1 << 31, u32::MAX - 9]),
            window: u16,
        ) -> TcpEndpoint {
            let scale = match scale {
                15 => Scale::None,
                16.. => Scale::Unknown,
                bits => Scale::By(bits),
            };
            let sent = sent.wrapping_add(near.0.into());
            let limit = sent.wrapping_add(u32::from(near.1) << 8);
            TcpEndpoint { state: TcpState::Established, scale, sent, limit, window }
        }
    }

    proptest! {
        #[test]
        fn update_established_equals_update_for_data_segments(
            endpoints in [established_endpoint(), established_endpoint()],
            state in prop::sample::select(vec![TcpState::Established, TcpState::Established, TcpState::Closing]),
            (seq, ack, len, flags) in (any::<i32>(), any::<i32>(), 0..3000u32, prop::sample::select(vec![ACK, ACK | PSH, ACK | URG])),
            near in 0..32u32, window: u16, reply: bool, strict: bool,
        ) {
            let mut endpoints = endpoints;
            endpoints[0].state = state;
            let [src, dst] = if reply { [endpoints[1], endpoints[0]] } else { endpoints };
            let (seq, ack) = (src.sent.wrapping_add_signed(seq >> near), dst.sent.wrapping_add_signed(ack >> near));
            let segment = Segment { flags, seq, ack, window, scale: Scale::None, len };
            let fast = update_established(pack(&endpoints), &segment, reply, strict);
            let mut after = endpoints;
            let [first, second] = &mut after;
            let (src, dst) = if reply { (second, first) } else { (first, second) };
            let update = update(src, dst, &segment, strict);
            let usual = state == TcpState::Established && update == Update::Valid(Some(Timeout::TcpEstablished));
            prop_assert_eq!(fast, usual.then(|| pack(&after)));
        }
    }

    #[test]
    fn what_a_record_keeps_is_what_it_was_given() {
        let scales = [Scale::None, Scale::Unknown, Scale::By(0), Scale::By(MAX_SCALE)];
        for (n, state) in TcpState::ALL.into_iter().enumerate() {
            for scale in scales {
                let a = TcpEndpoint {
                    state,
                    scale,
                    sent: 1 << 31 | n as u32,
                    limit: u32::MAX - 7,
                    window: 0x8001,
                };
                let b = TcpEndpoint {
                    state: TcpState::TimeWait,
                    sent: 5,
                    window: u16::MAX,
                    ..TcpEndpoint::default()
                };
                for endpoints in [[a, b], [b, a]] {
                    assert_eq!(unpack(pack(&endpoints)), endpoints);
                    assert!(pack(&endpoints)[0] >> crate::record::STATE_BITS == 0);
                }
            }
        }
    }
}
