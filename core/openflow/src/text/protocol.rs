//! Flow formats: the forms in which OpenFlow versions encode flows, and the names of the formats in options and messages.
//!
//! OpenFlow 1.0 has four formats: its own match or NXM, each with and without a table number in flow mods. Later versions have one.

use crate::action::Action;
use crate::flow_mod::TABLE_ALL;
use crate::version::{Version, VersionSet};
use crate::wire::check;
use flow::Match;
use flow::field::Usable;
use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr};
use units::OfPort;

/// A set of flow formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols(pub u16);

/// Name of each format.
const NAMES: [&str; 9] = [
    "OpenFlow10-table_id",
    "OpenFlow10+table_id",
    "NXM-table_id",
    "NXM+table_id",
    "OpenFlow11",
    "OXM-OpenFlow12",
    "OXM-OpenFlow13",
    "OXM-OpenFlow14",
    "OXM-OpenFlow15",
];

/// Sets of formats that have a name.
const ABBREVIATIONS: [(Protocols, &str); 4] =
    [(Protocols::ANY, "any"), (Protocols(3), "OpenFlow10"), (Protocols(12), "NXM"), (Protocols::OXM, "OXM")];

impl Protocols {
    /// OpenFlow 1.0 without table numbers, with its own match.
    pub const OF10_STD: Protocols = Protocols(1);
    /// All formats of OpenFlow 1.0.
    pub const OF10: Protocols = Protocols(15);
    /// OpenFlow 1.1 and later.
    pub const OF11_UP: Protocols = Protocols(0x1f0);
    /// OpenFlow 1.2 and later.
    pub const OXM: Protocols = Protocols(0x1e0);
    /// OpenFlow 1.3 and later.
    pub const OF13_UP: Protocols = Protocols(0x1c0);
    /// OpenFlow 1.5.
    pub const OF15: Protocols = Protocols(0x100);
    /// Formats whose flow mods contain a table number.
    pub const WITH_TABLE: Protocols = Protocols(0x1fa);
    /// NXM over 1.0, and 1.1 and later.
    pub const NXM_OF11_UP: Protocols = Protocols(0x1fc);
    /// NXM over 1.0, and 1.2 and later.
    pub const NXM_OXM: Protocols = Protocols(0x1ec);
    /// All formats.
    pub const ANY: Protocols = Protocols(0x1ff);

    /// The formats of a version.
    pub fn of_version(v: Version) -> Protocols {
        match v {
            Version::V10 => Protocols::OF10,
            v => Protocols(1 << (v.wire() + 2)),
        }
    }

    /// The formats of several versions.
    pub fn of_versions(set: VersionSet) -> Protocols {
        set.iter().map(Protocols::of_version).fold(Protocols(0), BitOr::bitor)
    }

    /// The versions of the set.
    pub fn versions(self) -> VersionSet {
        Version::ALL.into_iter().filter(|&v| !(self & Protocols::of_version(v)).is_empty()).collect()
    }

    /// The format of a connection of this version before another format is negotiated.
    pub fn initial(v: Version) -> Protocols {
        Protocols::of_version(v).first().unwrap_or(Protocols::OF10_STD)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first format of the set, as a set of one format.
    pub fn first(self) -> Option<Protocols> {
        (self.0 != 0).then(|| Protocols(1 << self.0.trailing_zeros()))
    }

    /// Each format of the set, as a set of one format.
    pub fn each(self) -> impl Iterator<Item = Protocols> {
        (0..9).map(|bit| Protocols(1 << bit)).filter(move |&p| !(self & p).is_empty())
    }

    /// Returns whether the formats use NXM over OpenFlow 1.0.
    pub fn is_nxm(self) -> bool {
        self.0 & 12 != 0
    }

    /// Returns whether flow mods of OpenFlow 1.0 contain a table number in this format.
    pub fn has_table_id(self) -> bool {
        self.0 & 10 != 0
    }

    /// Parses a comma-separated list of names; the error is a message for the user.
    pub fn parse(text: &str) -> Result<Protocols, String> {
        let parts = text.split([',', ' ', '\t', '\r', '\n']).filter(|p| !p.is_empty());
        parts.map(named).try_fold(Protocols(0), |set, p| Ok(set | p?))
    }

    pub(super) fn of_usable(usable: Usable) -> Protocols {
        match usable {
            Usable::None => Protocols(0),
            Usable::NxmOxm => Protocols::NXM_OXM,
            Usable::Of11Up => Protocols::NXM_OF11_UP,
            Usable::Any => Protocols::ANY,
        }
    }

    /// The formats that can encode these actions.
    pub fn of_actions(actions: &[Action]) -> Protocols {
        actions.iter().map(of_action).fold(Protocols::ANY, BitAnd::bitand)
    }

    /// The formats in which these actions are allowed with this match. Only OpenFlow 1.0 allows actions that have no effect
    /// on the packets of the match.
    pub fn of_actions_on_match(
        actions: &[Action],
        matching: &Match,
        table: u8,
    ) -> Result<Protocols, crate::OfError> {
        let limits = check::Limits { max_port: OfPort::MAX, table, n_tables: TABLE_ALL };
        match check::consistency(actions, matching, limits, Version::V13) {
            Ok(()) => Ok(Protocols::ANY),
            Err(_) => check::consistency(actions, matching, limits, Version::V10).map(|()| Protocols::OF10),
        }
    }
}

fn of_action(a: &Action) -> Protocols {
    let own = match a {
        Action::PushVlan(_) => Protocols::OF11_UP,
        Action::SetField { field, .. } => Protocols::of_usable(field.info().usable[0]),
        Action::Meter(_) | Action::Encap(_) => Protocols::OF13_UP,
        Action::WriteMetadata { .. } => Protocols::NXM_OF11_UP,
        _ => Protocols::ANY,
    };
    own & Protocols::of_actions(a.nested())
}

fn named(name: &str) -> Result<Protocols, String> {
    let any_case = |other: &str| name.eq_ignore_ascii_case(other);
    if let Some(i) = NAMES.iter().position(|n| any_case(n)) {
        return Ok(Protocols(1 << i));
    }
    if let Some((set, _)) = ABBREVIATIONS.iter().find(|(_, n)| any_case(n)) {
        return Ok(*set);
    }
    // The name of a version stands for all its formats except NXM.
    Version::from_name(name).map_or_else(
        || Err(format!("{name}: unknown flow protocol")),
        |v| Ok(if v == Version::V10 { Protocols(3) } else { Protocols::of_version(v) }),
    )
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let (mut left, mut first) = (*self, true);
        while let Some(one) = left.first() {
            let whole = ABBREVIATIONS.iter().find(|(set, _)| left & *set == *set);
            let (set, name) = match whole {
                Some((set, name)) => (*set, *name),
                None => (one, NAMES[one.0.trailing_zeros() as usize]),
            };
            write!(f, "{}{name}", if first { "" } else { "," })?;
            left = Protocols(left.0 & !set.0);
            first = false;
        }
        Ok(())
    }
}

impl BitAnd for Protocols {
    type Output = Protocols;
    fn bitand(self, other: Protocols) -> Protocols {
        Protocols(self.0 & other.0)
    }
}

impl BitOr for Protocols {
    type Output = Protocols;
    fn bitor(self, other: Protocols) -> Protocols {
        Protocols(self.0 | other.0)
    }
}

impl BitAndAssign for Protocols {
    fn bitand_assign(&mut self, other: Protocols) {
        self.0 &= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (set, text) in [
            (Protocols::ANY, "any"),
            (Protocols(0), "none"),
            (Protocols::OF10, "OpenFlow10,NXM"),
            (Protocols::NXM_OXM, "NXM,OXM"),
            (Protocols::OF13_UP, "OXM-OpenFlow13,OXM-OpenFlow14,OXM-OpenFlow15"),
            (Protocols(1), "OpenFlow10-table_id"),
        ] {
            assert_eq!(set.to_string(), text);
        }
        assert_eq!(Protocols::parse("nxm,OpenFlow13"), Ok(Protocols(12 | 64)));
        assert_eq!(Protocols::parse("foo"), Err("foo: unknown flow protocol".into()));
        assert_eq!(Protocols::of_version(Version::V15), Protocols::OF15);
        assert_eq!(Protocols::OXM.versions().newest(), Some(Version::V15));
    }
}
