//! Iteration over the words of flows and masks, most of which are zero.

/// Number of words that are compared with zero by one branch.
const GROUP: usize = 8;

/// Calls `f` with the index and the value of each word that is not zero, in order.
#[inline]
pub fn for_each_set_word(words: &[u64], mut f: impl FnMut(usize, u64)) {
    let (groups, rest) = words.as_chunks::<GROUP>();
    let mut each = |first: usize, group: &[u64]| {
        for (i, word) in group.iter().enumerate().filter(|(_, word)| **word != 0) {
            f(first + i, *word);
        }
    };
    for (n, group) in groups.iter().enumerate() {
        if group.iter().fold(0, |any, word| any | word) != 0 {
            each(n * GROUP, group);
        }
    }
    each(groups.len() * GROUP, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_set_are_told_in_order() {
        for len in 0..3 * GROUP {
            let words: Vec<u64> = (0..len as u64).map(|i| if i % 3 == 0 { 0 } else { i }).collect();
            let mut found = Vec::new();
            for_each_set_word(&words, |at, word| found.push((at, word)));
            let expected = (0..len).filter(|i| i % 3 != 0).map(|i| (i, i as u64));
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
