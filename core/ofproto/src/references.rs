//! References of rules to groups, meters and tunnel option fields.

use openflow::action::Action;

/// An object to which a rule can refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reference {
    Group(u32),
    Meter(u32),
    /// A tunnel option field. Not only actions but also the match can refer to it.
    Tlv(u8),
}

impl Reference {
    /// The object to which an action refers; nested actions are not examined.
    pub(crate) fn by(action: &Action) -> Option<Reference> {
        match *action {
            Action::Group(id) => Some(Reference::Group(id)),
            Action::Meter(id) => Some(Reference::Meter(id)),
            _ => None,
        }
    }
}
