//! The text of flow identifiers.

use units::Ufid;

/// `ufid:` and the identifier, as verbose dumps print it.
pub fn ufid_text(ufid: Ufid) -> String {
    format!("ufid:{ufid}")
}
