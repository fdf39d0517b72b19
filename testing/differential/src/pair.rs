//! The two switches, and what is asked of both.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::normal::Lookups;
use crate::switch::Switch;

/// How long results that a switch produces asynchronously may differ.
pub(crate) const SETTLE: Duration = Duration::from_millis(400);

/// The two switches.
pub struct Pair {
    /// The reference.
    pub stock: Switch,
    /// The switch under test.
    pub ours: Switch,
    /// The reference is of another version: the text of traces and the megaflows are not compared.
    pub loose: bool,
    /// Outputs lead into tunnels.
    pub tunnels: bool,
    /// Number of results that differed as expected, by the name of the expected difference.
    pub expected: BTreeMap<&'static str, usize>,
}

/// Whether a client succeeded, and its output, of both switches.
pub(crate) type Replies = ((bool, String), (bool, String));

/// Two results that differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The compared result.
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

    /// Replies of both to an appctl command; both run it at the same time.
    pub(crate) fn ctl(&mut self, command: &str, args: &[&str]) -> io::Result<(String, String)> {
        self.both(|s| s.ask(command, args))?;
        self.both(Switch::answer)
    }

    pub(crate) fn count(&mut self, name: &'static str) {
        *self.expected.entry(name).or_default() += 1;
    }

    /// The results of both for a call of `ovs-ofctl`; both run it at the same time.
    pub(crate) fn ofctl(&self, args: &[&str], input: &str) -> io::Result<Replies> {
        let (stock, ours) = (self.stock.ofctl(args, input)?, self.ours.ofctl(args, input)?);
        Ok((self.stock.ofctl_answer(stock)?, self.ours.ofctl_answer(ours)?))
    }

    /// Number of look-ups of both datapaths.
    pub(crate) fn lookups(&mut self) -> io::Result<(Lookups, Lookups)> {
        let (stock, ours) = self.ctl("dpctl/show", &[])?;
        Ok((Lookups::of(&stock), Lookups::of(&ours)))
    }
}
