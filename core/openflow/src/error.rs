//! OpenFlow errors: one list for all versions and vendors, with the numbers of each error in each version.
//!
//! If a version has no number for an error, `NXBRC_UNENCODABLE_ERROR` is sent, as in Open vSwitch. If a number
//! stands for two errors in a version, it is decoded to the first one of the list. Sources: the error sections
//! of the OpenFlow specifications 1.0 to 1.5; Open vSwitch's `ofp-errors.h` for its vendor codes.

mod code;
mod table;

use crate::version::Version;
use code::Code;
pub use code::{NX_VENDOR, ONF_VENDOR};
use std::fmt;
pub use table::OfError;

/// The error type of vendor errors in OpenFlow 1.0 and 1.1 (defined by Nicira).
const NX_TYPE_OLD: u16 = 0xb0c2;
/// The error type of vendor errors in OpenFlow 1.2 and later.
const EXPERIMENTER_TYPE: u16 = 0xffff;

impl OfError {
    /// The error's name as tools print it, e.g. `OFPBAC_BAD_OUT_PORT`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The error with this name.
    pub fn from_name(name: &str) -> Option<OfError> {
        OfError::ALL.iter().copied().find(|e| e.name() == name)
    }

    pub(crate) fn code(self, version: Version) -> Option<Code> {
        let index = version.wire() - 1;
        let row = self.row().1.iter().find(|(range, _)| range.contains(&index))?;
        Some(row.1)
    }

    fn from_code(version: Version, code: Code) -> Option<OfError> {
        OfError::ALL.iter().copied().find(|e| e.code(version) == Some(code))
    }

    /// The body of an error message in `version`: type, code and the request's first bytes.
    pub(crate) fn encode(self, version: Version, data: &[u8], out: &mut Vec<u8>) {
        let code = self.code(version).or_else(|| OfError::NxbrcUnencodableError.code(version));
        let Some(code) = code else { return };
        let words: &[u16] = if code.vendor == 0 {
            &[code.kind, code.code]
        } else if version <= Version::V11 {
            &[NX_TYPE_OLD, 0, 0, code.vendor as u16, code.kind, code.code]
        } else {
            &[EXPERIMENTER_TYPE, code.kind, (code.vendor >> 16) as u16, code.vendor as u16]
        };
        out.extend(words.iter().flat_map(|w| w.to_be_bytes()));
        out.extend_from_slice(data);
    }

    /// Decodes the body of an error message: the error, if it is known, and the rest of the body.
    pub(crate) fn decode(version: Version, body: &[u8]) -> Option<(Option<OfError>, &[u8])> {
        let word = |at: usize| body.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let (kind, code) = (word(0)?, word(2)?);
        let long = |at| Some(u32::from(word(at)?) << 16 | u32::from(word(at + 2)?));
        let (code, used) = match kind {
            NX_TYPE_OLD if version <= Version::V11 && code == 0 => {
                (Code { vendor: long(4)?, kind: word(8)?, code: word(10)? }, 12)
            }
            EXPERIMENTER_TYPE if version > Version::V11 => {
                (Code { vendor: long(4)?, kind: code, code: 0 }, 8)
            }
            _ => (Code { vendor: 0, kind, code }, 4),
        };
        // Vendor 0 is the standard. For an unknown error, keep the complete body.
        let known = OfError::from_code(version, code).filter(|_| code.vendor != 0 || used == 4);
        Some(match known {
            Some(error) => (Some(error), body.get(used..)?),
            None => (None, body.get(4..)?),
        })
    }
}

impl fmt::Display for OfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for OfError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(e: OfError, v: Version) -> Option<OfError> {
        let mut out = Vec::new();
        e.encode(v, b"req", &mut out);
        let (back, data) = OfError::decode(v, &out).unwrap();
        assert_eq!(data, b"req");
        back
    }

    #[test]
    fn errors_survive_encoding_except_merged_ones() {
        for v in Version::ALL {
            for e in OfError::ALL.iter().copied().filter(|e| e.code(v).is_some()) {
                let back = round(e, v).unwrap();
                assert!(back == e || back.code(v) == e.code(v), "{e} in {v}");
            }
        }
    }

    #[test]
    fn an_unknown_error_keeps_its_body() {
        let body = [0xff, 0xff, 0, 1, 0, 0x12, 0x34, 0x56, 7];
        assert_eq!(OfError::decode(Version::V13, &body), Some((None, &body[4..])));
        assert_eq!(OfError::decode(Version::V13, &[0xff, 0xff, 0, 0, 0, 0, 0, 0]), Some((None, &[0; 4][..])));
    }

    #[test]
    fn numbers_of_the_standard() {
        let mut out = Vec::new();
        OfError::BacBadOutPort.encode(Version::V10, &[], &mut out);
        assert_eq!(out, [0, 2, 0, 4]);
        out.clear();
        OfError::BrcBadTableId.encode(Version::V10, &[], &mut out);
        assert_eq!(out, [0xb0, 0xc2, 0, 0, 0, 0, 0x23, 0x20, 0, 1, 2, 0]);
        assert_eq!(OfError::BrcIsSecondary.name(), "OFPBRC_IS_SECONDARY");
        assert_eq!(round(OfError::BrcIsSecondary, Version::V10), Some(OfError::BrcEperm));
        assert_eq!(round(OfError::BrcUnknown, Version::V10), Some(OfError::NxbrcUnencodableError));
    }
}
