//! The configuration of table SSL: the files of the switch's key and certificates.

use crate::row::Row;

/// The row to which `Open_vSwitch.ssl` refers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SslConfig {
    /// `private_key`: a PEM file.
    pub private_key: String,
    /// `certificate`: a PEM file.
    pub certificate: String,
    /// `ca_cert`: a PEM file.
    pub ca_cert: String,
    /// `bootstrap_ca_cert`
    pub bootstrap_ca_cert: bool,
}

impl SslConfig {
    pub(crate) fn read(row: &Row<'_>) -> SslConfig {
        let text = |column| row.str(column).to_owned();
        SslConfig {
            private_key: text("private_key"),
            certificate: text("certificate"),
            ca_cert: text("ca_cert"),
            bootstrap_ca_cert: row.bool("bootstrap_ca_cert"),
        }
    }
}
