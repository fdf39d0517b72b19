//! The texts of ovs-dpctl(8): datapath flows and actions. A printed text is equal after it was parsed and printed again. (The parsed
//! values may differ once, because the probability of `sample` is printed with one decimal.)

use super::same::assert_same;
use dpif::text::{NoNames, actions_text, key_text, parse_actions, parse_key};
use std::str::from_utf8;

const LEN_MAX: usize = 2048;

pub fn run(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    if let Ok(actions) = parse_actions(text, &NoNames) {
        let out = actions_text(&actions, &NoNames);
        let back = parse_actions(&out, &NoNames).unwrap_or_else(|e| panic!("{out}: {e}"));
        let again = actions_text(&back, &NoNames);
        assert_same(&Ok(back), &parse_actions(&again, &NoNames), || out.clone());
        assert_eq!(again, out);
    }
    if let Ok((key, mask)) = parse_key(text, &NoNames) {
        for verbose in [false, true] {
            let out = key_text(&key, Some(&mask), verbose, &NoNames);
            let again = parse_key(&out, &NoNames).unwrap_or_else(|e| panic!("{out}: {e}"));
            if verbose {
                assert_eq!(key_text(&again.0, Some(&again.1), verbose, &NoNames), out);
            }
        }
        key_text(&key, None, false, &NoNames);
    }
}
