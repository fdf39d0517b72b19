//! One TLS connection over a non-blocking socket.

use super::identity::{self, Configs};
use super::subject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, Connection, ServerConnection};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of bytes accepted from the caller at once, as in one TLS record.
const RECORD_LEN: usize = 16 * 1024;

/// One TLS connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    conn: Connection,
    bootstrap: Option<PathBuf>,
}

impl TlsSession {
    /// Creates a session that starts the handshake.
    pub(crate) fn client(peer: IpAddr) -> io::Result<TlsSession> {
        let Configs { client, bootstrap, .. } = identity::configs()?;
        let conn =
            ClientConnection::new(client, ServerName::IpAddress(peer.into())).map_err(io::Error::other)?;
        Ok(TlsSession { conn: conn.into(), bootstrap })
    }

    /// Creates a session that waits for the client to start the handshake.
    pub(crate) fn server() -> io::Result<TlsSession> {
        let server = identity::configs()?.server;
        let Some(server) = server else {
            return Err(io::Error::new(ErrorKind::Unsupported, "the CA certificate is not known yet"));
        };
        let conn = ServerConnection::new(Arc::clone(&server)).map_err(io::Error::other)?;
        Ok(TlsSession { conn: conn.into(), bootstrap: None })
    }

    /// Continues the handshake; returns true when it is finished.
    pub(crate) fn handshake(&mut self, socket: &mut (impl Read + Write)) -> io::Result<bool> {
        while self.conn.is_handshaking() {
            self.send(socket)?;
            if !self.conn.is_handshaking() {
                break;
            }
            match self.receive(socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        self.send(socket)?;
        if let Some(file) = self.bootstrap.take() {
            let chain = self.conn.peer_certificates().unwrap_or_default();
            return Err(store_authority(&file, chain));
        }
        Ok(true)
    }

    /// The common name in the peer's certificate.
    pub(crate) fn peer_common_name(&self) -> Option<&str> {
        subject::common_name(self.conn.peer_certificates()?.first()?)
    }

    /// Returns whether there are bytes to write to the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.conn.wants_write()
    }

    /// Reads decrypted bytes. The error is `WouldBlock` if none have arrived.
    pub(crate) fn read(&mut self, socket: &mut (impl Read + Write), buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.conn.reader().read(buf) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // Many peers close the connection without close_notify.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            self.receive(socket)?;
            self.send(socket)?;
        }
    }

    /// Accepts some bytes of `buf`. The error is `WouldBlock` while bytes accepted before are not sent yet.
    pub(crate) fn write(&mut self, socket: &mut (impl Read + Write), buf: &[u8]) -> io::Result<usize> {
        self.send(socket)?;
        if self.conn.wants_write() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let accepted = self.conn.writer().write(buf.get(..RECORD_LEN).unwrap_or(buf))?;
        self.send(socket)?;
        Ok(accepted)
    }

    /// Sends queued bytes until the socket blocks.
    pub(crate) fn send(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.conn.wants_write() {
            match self.conn.write_tls(socket) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads from the socket once and processes the records. After a protocol error, it sends an alert to the peer.
    fn receive(&mut self, socket: &mut (impl Read + Write)) -> io::Result<usize> {
        let n = self.conn.read_tls(socket)?;
        if let Err(e) = self.conn.process_new_packets() {
            // Sending the alert may fail; the connection ends anyway.
            let _ = self.send(socket);
            return Err(io::Error::new(ErrorKind::InvalidData, e));
        }
        Ok(n)
    }
}

/// Stores the last certificate of the peer's chain in the file, unless the file exists by now. The connection ends in any
/// case; the next one is verified against that certificate.
fn store_authority(file: &Path, chain: &[CertificateDer<'_>]) -> io::Error {
    let Some(last) = chain.last() else {
        return io::Error::new(ErrorKind::InvalidData, "failed to bootstrap CA cert: no certificate");
    };
    let text = format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", base64(last));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()));
    match written {
        Ok(()) => io::Error::new(ErrorKind::ConnectionReset, "bootstrapped CA cert, connecting again"),
        Err(e) => io::Error::new(e.kind(), format!("could not bootstrap CA cert: {}: {e}", file.display())),
    }
}

/// Encodes bytes in base64 (RFC 4648 §4), in lines of 64 characters as in PEM (RFC 7468 §2).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for (i, group) in bytes.chunks(3).enumerate() {
        let word = (0..3).fold(0u32, |w, k| w << 8 | u32::from(group.get(k).copied().unwrap_or(0)));
        for k in 0..4 {
            let digit = char::from(DIGITS[(word >> (18 - 6 * k) & 63) as usize]);
            out.push(if k <= group.len() { digit } else { '=' });
        }
        if i % 16 == 15 {
            out.push('\n');
        }
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648 §10.
        let shown = |s: &str| base64(s.as_bytes()).trim_end().to_owned();
        assert_eq!(["f", "fo", "foo", "foobar"].map(shown), ["Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]);
        assert_eq!(base64(&[0; 49]).lines().map(str::len).collect::<Vec<_>>(), [64, 4]);
    }
}
