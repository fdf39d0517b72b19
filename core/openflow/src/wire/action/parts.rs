//! Parts that the standard form and Nicira's form of actions have in common.

use crate::action::Action;
use crate::error::OfError;

pub(super) fn check_len(len: usize, wanted: usize) -> Result<(), OfError> {
    if len == wanted { Ok(()) } else { Err(OfError::BacBadLen) }
}

pub(super) fn mpls_label(label: u32) -> Result<Action, OfError> {
    if label < 1 << 20 { Ok(Action::SetMplsLabel(label)) } else { Err(OfError::BacBadArgument) }
}

pub(super) fn mpls_tc(tc: u8) -> Result<Action, OfError> {
    if tc < 8 { Ok(Action::SetMplsTc(tc)) } else { Err(OfError::BacBadArgument) }
}

pub(super) fn push_mpls(ethertype: u16) -> Result<Action, OfError> {
    match ethertype {
        0x8847 | 0x8848 => Ok(Action::PushMpls(ethertype)),
        _ => Err(OfError::BacBadArgument),
    }
}
