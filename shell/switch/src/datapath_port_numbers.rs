//! Chooses the number of a new port of a datapath.

use std::collections::BTreeMap;
use units::PortNo;

/// The state on which the choice depends, besides the ports that exist.
pub(crate) struct DatapathPortNumbers {
    /// All numbers below this one are in use.
    first_free: u32,
    /// Numbers that a command requested for ports of a dummy datapath, by name of the port. They take precedence over
    /// the numbers in names.
    requested: BTreeMap<String, PortNo>,
}

impl DatapathPortNumbers {
    pub fn new() -> DatapathPortNumbers {
        DatapathPortNumbers { first_free: 1, requested: BTreeMap::new() }
    }

    /// Requests a number for a port, which applies when the port is created the next time.
    pub fn request(&mut self, name: &str, number: PortNo) {
        self.requested.insert(name.to_owned(), number);
    }

    /// Chooses the number of a new port: the requested number or, in a dummy datapath, the first number in the port's
    /// name (plus 100 if the name begins with "br"), so that tests can predict it. If there is no such number, or it
    /// is in use, the lowest free number.
    pub fn choose(&self, name: &str, is_dummy: bool, is_used: impl Fn(PortNo) -> bool) -> PortNo {
        let by_name = || number_in_name(name).filter(|_| is_dummy);
        let wanted = self.requested.get(name).copied().or_else(by_name);
        let lowest = || (self.first_free..).map(PortNo).find(|n| !is_used(*n));
        wanted.filter(|n| !is_used(*n)).or_else(lowest).unwrap_or(PortNo::NONE)
    }

    /// Updates the lowest free number after a port was added.
    pub fn note_used(&mut self, is_used: impl Fn(PortNo) -> bool) {
        while is_used(PortNo(self.first_free)) {
            self.first_free += 1;
        }
    }

    /// Records that no port has `number` any more.
    pub fn note_free(&mut self, number: PortNo) {
        if number.0 > 0 {
            self.first_free = self.first_free.min(number.0);
        }
    }
}

/// The number that the name of a port requests in a dummy datapath.
fn number_in_name(name: &str) -> Option<PortNo> {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let base = if name.starts_with("br") { 100 } else { 0 };
    let number = digits.parse::<u32>().ok()?.saturating_add(base);
    (1..=datapath::ports::MAX_PORT).contains(&number).then_some(PortNo(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name_by_order_or_the_lowest() {
        let mut numbers = DatapathPortNumbers::new();
        let used = |n: PortNo| n.0 == 1;
        numbers.note_used(used);
        let choose = |name: &str, is_dummy| numbers.choose(name, is_dummy, used).0;
        assert_eq!([choose("p7", true), choose("br0", true), choose("p1", true)], [7, 100, 2]);
        assert_eq!([choose("p7", false), choose("p4294967295", true), choose("p", true)], [2, 2, 2]);
        numbers.request("p7", PortNo(9));
        assert_eq!(numbers.choose("p7", true, used), PortNo(9));
        numbers.note_free(PortNo(1));
        assert_eq!(numbers.choose("x", false, |_| false), PortNo(1));
    }
}
