//! One link of a bond.

use flow::Mac;
use units::Millis;

/// External facts about a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// The interface's name.
    pub name: String,
    /// The interface's MAC address.
    pub mac: Mac,
    /// The link has a carrier.
    pub carrier: bool,
    /// No protocol, such as LACP or BFD, forbids the use of the link.
    pub may_enable: bool,
}

/// One link of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// External facts about the link.
    pub facts: LinkFacts,
    /// The link is used.
    pub enabled: bool,
    /// Time at which a pending change of `enabled` takes effect.
    pub delay_until: Option<Millis>,
}

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        self.facts.carrier && self.facts.may_enable
    }
}
