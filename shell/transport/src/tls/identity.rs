//! The process's TLS identity: its files, and the TLS configurations built from them.
//!
//! The component that reads the settings (command line, table SSL) sets the files; then any thread may use the identity.
//! Files are read when they are set, and again after they change on disk.

use super::trust::ChainOnly;
use super::versions_and_ciphers;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The TLS settings. `P` is a path or another representation of one; an empty path: the file is not configured. Files are in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings<P> {
    /// `--private-key`, column `private_key`.
    pub private_key: P,
    /// `--certificate`, column `certificate`. The file may contain a chain.
    pub certificate: P,
    /// `--ca-cert`, column `ca_cert`: the trusted authorities.
    pub ca_cert: P,
    /// `--bootstrap-ca-cert`, column `bootstrap_ca_cert`: if the file `ca_cert` does not exist, the certificate of the first
    /// peer's authority is stored in it, and trusted from then on.
    pub bootstrap: bool,
    /// `--ssl-protocols`, column `ssl_protocols`. Empty means all supported versions.
    pub protocols: String,
    /// `--ssl-ciphers`, column `ssl_ciphers`: for TLS 1.2.
    pub ciphers: String,
    /// `--ssl-ciphersuites`, column `ssl_ciphersuites`: for TLS 1.3.
    pub ciphersuites: String,
}

/// The settings with file paths.
pub type Files = TlsSettings<PathBuf>;

/// The modification times of the files, to detect changes.
type ModificationTimes = [Option<SystemTime>; 3];

#[derive(Default)]
struct Identity {
    files: Files,
    cached: Option<(ModificationTimes, Configs)>,
}

/// The TLS configurations for new connections.
#[derive(Clone)]
pub(crate) struct Configs {
    pub(crate) client: Arc<ClientConfig>,
    /// `None` until the authority is known.
    pub(crate) server: Option<Arc<ServerConfig>>,
    /// The file in which the first peer's authority must be stored; `None` if the authority is known or must not be learned.
    pub(crate) bootstrap: Option<PathBuf>,
}

static IDENTITY: Mutex<Option<Identity>> = Mutex::new(None);

fn identity() -> MutexGuard<'static, Option<Identity>> {
    IDENTITY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the files for new connections. The error names a file that cannot be used; the next connection reads it again.
pub fn configure(files: &Files) -> Result<(), String> {
    let mut guard = identity();
    let identity = guard.get_or_insert_default();
    if identity.files != *files {
        *identity = Identity { files: files.clone(), cached: None };
    }
    if *files == Files::default() {
        return Ok(());
    }
    identity.configs().map(drop)
}

/// Returns the configurations. The error names the missing setting or the file that cannot be used.
pub(crate) fn configs() -> io::Result<Configs> {
    identity().get_or_insert_default().configs().map_err(|text| io::Error::new(ErrorKind::Unsupported, text))
}

impl Identity {
    fn configs(&mut self) -> Result<Configs, String> {
        let modification_times = self.modification_times();
        if let Some((at, configs)) = &self.cached
            && *at == modification_times
        {
            return Ok(configs.clone());
        }
        let configs = read(&self.files)?;
        self.cached = Some((modification_times, configs.clone()));
        Ok(configs)
    }

    fn modification_times(&self) -> ModificationTimes {
        let f = &self.files;
        [&f.private_key, &f.certificate, &f.ca_cert].map(|p| std::fs::metadata(p).ok()?.modified().ok())
    }
}

fn read(files: &Files) -> Result<Configs, String> {
    let configured = |path: &Path, what: &str| {
        let set = !path.as_os_str().is_empty();
        set.then_some(()).ok_or_else(|| format!("{what} must be configured to use SSL"))
    };
    configured(&files.private_key, "Private key")?;
    configured(&files.certificate, "Certificate")?;
    configured(&files.ca_cert, "CA certificate")?;
    let mut provider = ring::default_provider();
    versions_and_ciphers::restrict(&mut provider, &files.ciphers, &files.ciphersuites);
    let provider = Arc::new(provider);
    let versions = versions_and_ciphers::versions(&files.protocols)?;
    let key =
        PrivateKeyDer::from_pem_file(&files.private_key).map_err(|e| file_error(&files.private_key, &e))?;
    let chain = certificates(&files.certificate)?;
    let missing = files.bootstrap && !files.ca_cert.exists();
    let roots = if missing { None } else { Some(Arc::new(authorities(&files.ca_cert)?)) };
    let client = client(&provider, &versions, roots.as_ref(), &chain, &key)?;
    let server = roots.map(|roots| server(&provider, &versions, &roots, &chain, &key)).transpose()?;
    Ok(Configs { client, server, bootstrap: missing.then(|| files.ca_cert.clone()) })
}

fn file_error(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(list) if list.is_empty() => Err(file_error(path, &"no certificate in it")),
        Ok(list) => Ok(list),
        Err(e) => Err(file_error(path, &e)),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| file_error(path, &e))?;
    }
    Ok(roots)
}

type Chain = [CertificateDer<'static>];

fn client(
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    roots: Option<&Arc<RootCertStore>>,
    chain: &Chain,
    key: &PrivateKeyDer<'static>,
) -> Result<Arc<ClientConfig>, String> {
    let verifier = roots
        .map(|r| WebPkiServerVerifier::builder_with_provider(Arc::clone(r), Arc::clone(provider)).build())
        .transpose()
        .map_err(|e| e.to_string())?;
    let trust = ChainOnly { chain: verifier, provider: Arc::clone(provider) };
    let config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
        .with_client_auth_cert(chain.to_vec(), key.clone_key())
        .map_err(|e| e.to_string())?;
    Ok(Arc::new(config))
}

fn server(
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    roots: &Arc<RootCertStore>,
    chain: &Chain,
    key: &PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, String> {
    let trust = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider));
    let config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|e| e.to_string())?
        .with_client_cert_verifier(trust.build().map_err(|e| e.to_string())?)
        .with_single_cert(chain.to_vec(), key.clone_key())
        .map_err(|e| e.to_string())?;
    Ok(Arc::new(config))
}
