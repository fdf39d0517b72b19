//! The shift of sequence numbers in one direction of a TCP connection, after text was replaced by text of another length. After the start of
//! the segment with the latest change, the shift is the sum of all changes; up to this start, it is the sum of the earlier changes.

/// The shift of sequence numbers in one direction. The default shifts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// First sequence number of the segment with the latest change, in the numbers of the sender (not shifted).
    at: u32,
    /// Shift of segments up to `at`.
    before: i32,
    /// Shift of segments after `at`.
    after: i32,
}

/// Returns whether sequence number `a` comes after `b` (RFC 9293 §3.4).
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Skew {
    /// Records that the segment at `seq` was made longer by `by` bytes (negative: shorter). A retransmission of the latest or an earlier
    /// segment changes nothing.
    pub fn record_change(&mut self, seq: u32, by: i32) {
        if self.before == self.after || is_after(seq, self.at) {
            *self = Skew { at: seq, before: self.after, after: self.after.wrapping_add(by) };
        }
    }

    /// The value to add to the sequence number of a segment of the sender.
    pub fn seq_shift(&self, seq: u32) -> i32 {
        if is_after(seq, self.at) { self.after } else { self.before }
    }

    /// The value to subtract from the receiver's acknowledgement number.
    pub fn ack_shift(&self, ack: u32) -> i32 {
        if is_after(ack.wrapping_add_signed(self.before.wrapping_neg()), self.at) {
            self.after
        } else {
            self.before
        }
    }
}
