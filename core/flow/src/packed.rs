//! Compressed flows: a flow without its zero words, for flows that are stored in large numbers.

use crate::flow::{FLOW_WORDS, Flow};
use crate::words::for_each_set_word;

const _: () = assert!(FLOW_WORDS <= 128, "one bit for each word");

/// The non-zero words of a flow. The flow of a packet has about ten of them, out of about a hundred words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackedFlow {
    /// The indices of the stored words, as a bit set.
    map: u128,
    words: Box<[u64]>,
}

impl PackedFlow {
    /// The flow with all words.
    pub fn unpack(&self) -> Flow {
        let mut flow = Flow::ZERO;
        let (mut map, words) = (self.map, flow.words_mut());
        for word in &self.words {
            words[map.trailing_zeros() as usize % FLOW_WORDS] = *word;
            map &= map.wrapping_sub(1);
        }
        flow
    }

    /// Bytes of heap memory.
    pub fn heap(&self) -> usize {
        size_of_val(&*self.words)
    }
}

impl From<&Flow> for PackedFlow {
    fn from(flow: &Flow) -> PackedFlow {
        let (mut map, mut packed, mut n) = (0, [0; FLOW_WORDS], 0);
        for_each_set_word(flow.words(), |at, word| {
            map |= 1 << at;
            packed[n] = word;
            n += 1;
        });
        PackedFlow { map, words: packed[..n].into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let mut flow = Flow { in_port: 7, dl_type: 0x0800, nw_dst: 0x0a00_0001, ..Flow::ZERO };
        flow.words_mut()[FLOW_WORDS - 1] = 1;
        for flow in [flow, Flow::ZERO, Flow::ONES] {
            assert_eq!(PackedFlow::from(&flow).unpack(), flow);
        }
        assert!(PackedFlow::from(&flow).heap() <= 4 * 8);
    }
}
