//! The two switches, and commands that both execute.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::normalize::Lookups;
use crate::switch::Switch;

/// How long results that a switch produces asynchronously may differ.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(400);

/// The two switches that are compared.
pub struct Pair {
    /// The reference.
    pub stock: Switch,
    /// The switch under test.
    pub ours: Switch,
    /// Whether the reference is another version, so that the text of traces and the megaflows are not compared.
    pub is_other_version: bool,
    /// Whether some packets are sent to tunnels.
    pub tunnels: bool,
    /// How often each expected difference occurred, by its name.
    pub expected: BTreeMap<&'static str, usize>,
}

/// For each of the two switches: whether the client succeeded, and its output.
pub(crate) type Replies = ((bool, String), (bool, String));

/// Two results that differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The name of the compared result.
    pub what: &'static str,
    /// The stock switch's result.
    pub stock: String,
    /// Sluice's result.
    pub ours: String,
}

impl Difference {
    /// `None` if the results are equal.
    pub(crate) fn of(what: &'static str, stock: String, ours: String) -> Option<Difference> {
        (stock != ours).then_some(Difference { what, stock, ours })
    }
}

impl Pair {
    pub(crate) fn both<T>(&mut self, mut f: impl FnMut(&mut Switch) -> io::Result<T>) -> io::Result<(T, T)> {
        Ok((f(&mut self.stock)?, f(&mut self.ours)?))
    }

    /// Returns the replies of both switches to an appctl command, which they execute at the same time.
    pub(crate) fn ctl(&mut self, command: &str, args: &[&str]) -> io::Result<(String, String)> {
        self.both(|s| s.request(command, args))?;
        self.both(Switch::reply)
    }

    pub(crate) fn count(&mut self, name: &'static str) {
        *self.expected.entry(name).or_default() += 1;
    }

    /// How often an expected difference occurred.
    pub(crate) fn times(&self, name: &str) -> usize {
        self.expected.get(name).copied().unwrap_or(0)
    }

    /// Returns the results of a call of `ovs-ofctl` for each switch. The two calls run at the same time.
    pub(crate) fn ofctl(&self, args: &[&str], input: &str) -> io::Result<Replies> {
        let (stock, ours) = (self.stock.ofctl(args, input)?, self.ours.ofctl(args, input)?);
        Ok((self.stock.ofctl_result(stock)?, self.ours.ofctl_result(ours)?))
    }

    /// The numbers of lookups of both datapaths.
    pub(crate) fn lookups(&mut self) -> io::Result<(Lookups, Lookups)> {
        let (stock, ours) = self.ctl("dpctl/show", &[])?;
        Ok((Lookups::of(&stock), Lookups::of(&ours)))
    }
}
