//! OpenFlow versions and sets of them.

use std::fmt;

/// A version of the protocol. The discriminant is the byte on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.0
    #[default]
    V10 = 1,
    /// OpenFlow 1.1
    V11 = 2,
    /// OpenFlow 1.2
    V12 = 3,
    /// OpenFlow 1.3
    V13 = 4,
    /// OpenFlow 1.4
    V14 = 5,
    /// OpenFlow 1.5
    V15 = 6,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 6] =
        [Version::V10, Version::V11, Version::V12, Version::V13, Version::V14, Version::V15];

    /// The version with this byte in the header.
    pub fn from_wire(byte: u8) -> Option<Version> {
        Version::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// The version byte of the header.
    pub fn wire(self) -> u8 {
        self as u8
    }

    /// Parses a name of `Bridge.protocols` or `ovs-ofctl -O`: `OpenFlow13`, `OpenFlow1.3`.
    pub fn from_name(name: &str) -> Option<Version> {
        let digit = ["OpenFlow1.", "OpenFlow1"].iter().find_map(|prefix| {
            let head = name.get(..prefix.len())?;
            head.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])
        })?;
        let minor: u8 = digit.parse().ok()?;
        (digit.len() == 1).then(|| Version::from_wire(minor + 1))?
    }

    /// The name in `Bridge.protocols`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V10 => "OpenFlow10",
            Version::V11 => "OpenFlow11",
            Version::V12 => "OpenFlow12",
            Version::V13 => "OpenFlow13",
            Version::V14 => "OpenFlow14",
            Version::V15 => "OpenFlow15",
        }
    }
}

impl fmt::Display for Version {
    /// Prints the version as in log messages, for example `OF1.3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OF1.{}", self.wire() - 1)
    }
}

/// A set of versions: bit `n` is the version with byte `n`, as in the bitmap of a hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionSet(pub u32);

impl VersionSet {
    /// All versions that the codec knows.
    pub const ALL: VersionSet = VersionSet(0x7e);

    /// The set with this version only.
    pub fn only(v: Version) -> VersionSet {
        VersionSet(1 << v.wire())
    }

    /// All versions up to the version byte `byte`. This is the meaning of a hello without a bitmap.
    pub fn up_to(byte: u8) -> VersionSet {
        VersionSet(if byte >= 31 { !1 } else { (2u32 << byte) - 2 })
    }

    /// The set and this version.
    #[must_use]
    pub fn with(self, v: Version) -> VersionSet {
        VersionSet(self.0 | 1 << v.wire())
    }

    /// The versions in both sets.
    #[must_use]
    pub fn and(self, other: VersionSet) -> VersionSet {
        VersionSet(self.0 & other.0)
    }

    /// Returns whether the version is in the set.
    pub fn contains(self, v: Version) -> bool {
        self.0 & 1 << v.wire() != 0
    }

    /// The newest version in the set.
    pub fn newest(self) -> Option<Version> {
        Version::ALL.into_iter().rev().find(|&v| self.contains(v))
    }

    /// The versions, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Version> {
        Version::ALL.into_iter().filter(move |&v| self.contains(v))
    }
}

impl FromIterator<Version> for VersionSet {
    fn from_iter<I: IntoIterator<Item = Version>>(versions: I) -> VersionSet {
        versions.into_iter().fold(VersionSet(0), VersionSet::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets() {
        assert_eq!(Version::from_name("OpenFlow13"), Some(Version::V13));
        assert_eq!(Version::from_name("openflow1.0"), Some(Version::V10));
        assert_eq!(Version::from_name("OpenFlow16"), None);
        assert_eq!(Version::from_name("OpenFlow1é"), None);
        assert_eq!(VersionSet::up_to(4).newest(), Some(Version::V13));
        assert!(!VersionSet::up_to(4).contains(Version::V14));
        assert_eq!(VersionSet::up_to(255).and(VersionSet::ALL), VersionSet::ALL);
        assert_eq!(VersionSet::up_to(0).newest(), None);
    }
}
