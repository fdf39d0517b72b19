//! The shift of sequence numbers in one direction of a TCP connection, after text was replaced by text of
//! another length. The latest change applies from its position on; before it the sum of all earlier changes
//! applies.

/// The shift of one direction. The default shifts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// First sequence number of the segment with the latest change, as the sender counts.
    at: u32,
    before: i32,
    after: i32,
}

/// Serial number arithmetic (RFC 9293 §3.4).
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Skew {
    /// Records that the segment at `seq` was made longer by this many bytes (negative: shorter). Nothing
    /// changes for a retransmission.
    pub fn note(&mut self, seq: u32, by: i32) {
        if self.before == self.after || is_after(seq, self.at) {
            *self = Skew { at: seq, before: self.after, after: self.after.wrapping_add(by) };
        }
    }

    /// The value to add to the sequence number of a segment of the sender.
    pub fn of_seq(&self, seq: u32) -> i32 {
        if is_after(seq, self.at) { self.after } else { self.before }
    }

    /// The value to subtract from the receiver's acknowledgement number.
    pub fn of_ack(&self, ack: u32) -> i32 {
        if is_after(ack.wrapping_add_signed(self.before.wrapping_neg()), self.at) {
            self.after
        } else {
            self.before
        }
    }
}
