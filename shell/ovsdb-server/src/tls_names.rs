//! Names of the files for TLS.

use transport::tls::Names;

/// File names and settings, or the columns that hold them.
pub type TlsNames = Names<String>;
