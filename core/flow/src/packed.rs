//! A flow without its zeroes: what is kept of packets where there are many of them.

use crate::flow::{FLOW_WORDS, Flow};

const _: () = assert!(FLOW_WORDS <= 128, "one bit for each word");

/// The words of a flow that are not zero. A packet has some ten of its hundred.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackedFlow {
    /// Which words those are.
    map: u128,
    words: Box<[u64]>,
}

impl PackedFlow {
    /// The flow in full.
    pub fn unpack(&self) -> Flow {
        let mut flow = Flow::ZERO;
        let (mut map, words) = (self.map, flow.words_mut());
        for word in &self.words {
            words[map.trailing_zeros() as usize % FLOW_WORDS] = *word;
            map &= map.wrapping_sub(1);
        }
        flow
    }

    /// Bytes of memory beside the structure itself.
    pub fn heap(&self) -> usize {
        size_of_val(&*self.words)
    }
}

impl From<&Flow> for PackedFlow {
    fn from(flow: &Flow) -> PackedFlow {
        /// So many words are looked at together: most are zero.
        const TOGETHER: usize = 8;
        let (mut map, mut packed, mut n) = (0, [0; FLOW_WORDS], 0);
        for (i, words) in flow.words().chunks(TOGETHER).enumerate() {
            if words.iter().fold(0, |any, word| any | word) == 0 {
                continue;
            }
            let mut bits = 0;
            for (j, word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
                bits |= 1u32 << j;
                packed[n] = *word;
                n += 1;
            }
            map |= u128::from(bits) << (i * TOGETHER);
        }
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
