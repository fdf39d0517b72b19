//! How far the sequence numbers of one direction of a TCP connection are shifted, after text in it was replaced by text of another
//! length. The latest change counts from its place on; before it the shift is that of all changes before.

/// See the module. The default shifts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// The segment with the latest change begins here, in the sender's numbers.
    at: u32,
    before: i32,
    after: i32,
}

/// Serial number arithmetic (RFC 9293 §3.4).
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Skew {
    /// The segment that begins at `seq` was made longer by so many bytes (negative: shorter). A segment that is sent again
    /// changes nothing more.
    pub fn note(&mut self, seq: u32, by: i32) {
        if self.before == self.after || is_after(seq, self.at) {
            *self = Skew { at: seq, before: self.after, after: self.after.wrapping_add(by) };
        }
    }

    /// What is added to the sequence number of a segment of the sender.
    pub fn of_seq(&self, seq: u32) -> i32 {
        if is_after(seq, self.at) { self.after } else { self.before }
    }

    /// What is taken off the number that the receiver acknowledges.
    pub fn of_ack(&self, ack: u32) -> i32 {
        if is_after(ack.wrapping_add_signed(self.before.wrapping_neg()), self.at) {
            self.after
        } else {
            self.before
        }
    }
}
