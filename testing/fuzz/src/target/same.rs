//! Compares large values, and prints only the difference.

use std::fmt::Debug;

/// Panics with the lines in which the two values differ.
pub fn assert_same<T: PartialEq + Debug>(first: &T, again: &T, how: impl FnOnce() -> String) {
    if first == again {
        return;
    }
    let (first, again) = (format!("{first:#?}"), format!("{again:#?}"));
    let only = |a: &str, b: &str, sign: char| -> String {
        let lines = a.lines().filter(|line| !b.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign}{line}\n")).collect()
    };
    panic!("not the same again\n{}{}{}", only(&first, &again, '-'), only(&again, &first, '+'), how());
}
