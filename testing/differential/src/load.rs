//! Loads a table into both switches.

use std::io;

use crate::normalize;
use crate::pair::{Difference, Pair, Replies};
use crate::table::Table;
use crate::version10;

impl Pair {
    /// Applies a bundle of flows and groups to br0 of both switches. Returns whether each accepted it, and the client's output.
    fn bundle(&self, text: &str) -> io::Result<Replies> {
        self.ofctl(&["bundle", "br0", "-"], text)
    }

    /// Adds flows to br0 of both switches as a client of OpenFlow 1.0, which has no bundles.
    fn add_flows_openflow10(&self, text: &str) -> io::Result<Replies> {
        self.ofctl(&["-OOpenFlow10", "add-flows", "br0", "-"], text)
    }

    /// Loads a table into both switches. Lines that the client or the stock switch refuses are removed from the table; Sluice
    /// must also refuse them.
    pub fn load(&mut self, table: &mut Table) -> io::Result<Option<Difference>> {
        loop {
            let ((accepted, stock), (_, ours)) = self.bundle(&table.bundle())?;
            if let Some(d) = Difference::of("load", normalize::error(&stock), normalize::error(&ours)) {
                return Ok(Some(d));
            }
            if accepted {
                break;
            }
            if !table.remove(normalize::unparsable_line(&stock)) {
                self.bundle(&Table::default().bundle())?;
                let mut differ = None;
                table.groups = self.accepted(&table.groups, Pair::bundle, &mut differ)?;
                table.flows = self.accepted(&table.flows, Pair::bundle, &mut differ)?;
                if differ.is_some() {
                    return Ok(differ);
                }
            }
        }
        if let Some(d) = self.load_version10(table)? {
            return Ok(Some(d));
        }
        // Addresses could be learned when megaflows of the previous case are revalidated.
        self.ctl("revalidator/purge", &[])?;
        ["br0", "br1"].iter().try_for_each(|bridge| self.ctl("fdb/flush", &[bridge]).map(drop))?;
        Ok(None)
    }

    /// Adds the table's flows of OpenFlow 1.0, and compares how clients of several versions see them.
    fn load_version10(&self, table: &mut Table) -> io::Result<Option<Difference>> {
        let mut differ = None;
        table.openflow10_flows =
            self.accepted(&table.openflow10_flows, Pair::add_flows_openflow10, &mut differ)?;
        if differ.is_some() || table.openflow10_flows.is_empty() {
            return Ok(differ);
        }
        for version in ["-OOpenFlow10", "-OOpenFlow13", "-OOpenFlow15"] {
            let mine = format!("{}/-1", version10::COOKIE);
            let ((_, stock), (_, ours)) = self.ofctl(&[version, "dump-flows", "br0", &mine], "")?;
            let (stock, ours) = (normalize::flows(&stock), normalize::flows(&ours));
            if let Some(d) = Difference::of("flows of a client of OpenFlow 1.0", stock, ours) {
                return Ok(Some(d));
            }
        }
        Ok(None)
    }

    /// Adds these lines to br0 of both switches by `send`, and returns those that are accepted. Sets `differ` to the first
    /// difference between the replies. After a failure it halves the list, because starting a client for each line would take
    /// most of the time.
    fn accepted(
        &self,
        lines: &[String],
        send: fn(&Pair, &str) -> io::Result<Replies>,
        differ: &mut Option<Difference>,
    ) -> io::Result<Vec<String>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let text = lines.join("\n");
        let ((accepted, stock), (_, ours)) = send(self, &text)?;
        if differ.is_none() {
            let with = |answer: &str| format!("{text}\n{}", normalize::error(answer));
            *differ = Difference::of("load", with(&stock), with(&ours));
        }
        match lines {
            _ if accepted => Ok(lines.to_vec()),
            [_] => Ok(Vec::new()),
            _ => {
                let (one, other) = lines.split_at(lines.len() / 2);
                Ok([self.accepted(one, send, differ)?, self.accepted(other, send, differ)?].concat())
            }
        }
    }
}
