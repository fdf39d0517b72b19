//! Numeric codes of errors.

/// Nicira's vendor (experimenter) number.
pub const NX_VENDOR: u32 = 0x0000_2320;
/// The Open Networking Foundation's experimenter number.
pub const ONF_VENDOR: u32 = 0x4f4e_4600;

/// The numbers of an error in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// Vendor; 0 for errors of the standard.
    pub vendor: u32,
    pub kind: u16,
    pub code: u16,
}
