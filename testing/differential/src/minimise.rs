//! Finds a small table and few packets that still show a difference of the same kind.

use std::io;
use std::time::{Duration, Instant};

use crate::check::Check;
use crate::pair::{Difference, Pair};
use crate::table::Table;

/// Maximum time for minimising one difference.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A difference with a minimal case.
#[derive(Debug)]
pub struct Minimal {
    /// The remaining flows and groups.
    pub table: Table,
    /// The check, with the remaining packets.
    pub check: Check,
    /// The difference of the minimal case.
    pub difference: Difference,
}

struct Search<'a> {
    pair: &'a mut Pair,
    smallest: Minimal,
    deadline: Instant,
}

/// Minimises the case of a difference.
pub fn minimise(pair: &mut Pair, table: Table, check: Check, difference: Difference) -> io::Result<Minimal> {
    let mut search =
        Search { pair, smallest: Minimal { table, check, difference }, deadline: Instant::now() + TIME_MAX };
    if let Check::Forward(packets) = &search.smallest.check {
        let single: Vec<Check> = packets.iter().rev().map(|p| Check::Forward(vec![p.clone()])).collect();
        for one in single {
            if search.still_differs(search.smallest.table.clone(), one)? {
                break;
            }
        }
    }
    search.shrink(|t| &mut t.flows)?;
    search.shrink(|t| &mut t.groups)?;
    search.shrink(|t| &mut t.openflow10_flows)?;
    search.drop_packets()?;
    Ok(search.smallest)
}

impl Search<'_> {
    /// Returns whether the smaller case still shows the difference. If so, the search continues with this case.
    fn still_differs(&mut self, table: Table, check: Check) -> io::Result<bool> {
        if Instant::now() > self.deadline {
            return Ok(false);
        }
        match self.pair.run(&mut table.clone(), &check)? {
            Some(d) if d.what == self.smallest.difference.what => {
                self.smallest = Minimal { table, check, difference: d };
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Removes parts of one list, large ones first.
    fn shrink(&mut self, list: impl Fn(&mut Table) -> &mut Vec<String>) -> io::Result<()> {
        let mut size = list(&mut self.smallest.table).len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < list(&mut self.smallest.table).len() {
                let mut smaller = self.smallest.table.clone();
                let items = list(&mut smaller);
                items.drain(at..(at + size).min(items.len()));
                if !self.still_differs(smaller, self.smallest.check.clone())? {
                    at += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    fn drop_packets(&mut self) -> io::Result<()> {
        let mut at = 0;
        while let Check::Forward(packets) = &self.smallest.check {
            if at >= packets.len() || packets.len() == 1 {
                break;
            }
            let mut fewer = packets.clone();
            fewer.remove(at);
            if !self.still_differs(self.smallest.table.clone(), Check::Forward(fewer))? {
                at += 1;
            }
        }
        Ok(())
    }
}
