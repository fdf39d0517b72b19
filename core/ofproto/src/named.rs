//! What the actions of a rule refer to.

use openflow::action::Action;

/// An object to which the actions of a rule can refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Named {
    Group(u32),
    Meter(u32),
    /// A tunnel option field, to which the match can refer too.
    Tlv(u8),
}

impl Named {
    /// The object to which an action itself refers.
    pub(crate) fn by(action: &Action) -> Option<Named> {
        match *action {
            Action::Group(id) => Some(Named::Group(id)),
            Action::Meter(id) => Some(Named::Meter(id)),
            _ => None,
        }
    }
}
