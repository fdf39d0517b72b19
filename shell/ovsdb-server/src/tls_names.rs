//! The names of TLS files.

use transport::tls::TlsSettings;

/// The TLS settings: file names and values, or `db:` names of columns that contain them.
pub type TlsNames = TlsSettings<String>;
