//! References: the groups, meters and tunnel options that the actions of a rule use.

use openflow::action::Action;

/// An object to which the actions of a rule can refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reference {
    Group(u32),
    Meter(u32),
    /// A tunnel option field, to which the match can refer too.
    Tlv(u8),
}

impl Reference {
    /// The object to which an action itself refers.
    pub(crate) fn by(action: &Action) -> Option<Reference> {
        match *action {
            Action::Group(id) => Some(Reference::Group(id)),
            Action::Meter(id) => Some(Reference::Meter(id)),
            _ => None,
        }
    }
}
