//! One link of a bond.

use flow::Mac;
use units::Millis;

/// What is known of a link from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// The interface's name.
    pub name: String,
    /// Its address.
    pub mac: Mac,
    /// It has a carrier.
    pub carrier: bool,
    /// Nothing else, such as LACP or BFD, speaks against it.
    pub may_enable: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// From outside.
    pub facts: LinkFacts,
    /// It is used.
    pub enabled: bool,
    /// Its state differs from that, and then counts.
    pub delay_until: Option<Millis>,
}

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        self.facts.carrier && self.facts.may_enable
    }
}
