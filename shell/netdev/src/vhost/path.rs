//! Checks of a socket's path before it is used.

use crate::error::NetdevError;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Maximum length of a socket path in bytes.
const PATH_MAX: usize = 107;
const ENAMETOOLONG: i32 = 36;
const EADDRINUSE: i32 = 98;
const EEXIST: i32 = 17;
const ENOTSOCK: i32 = 88;
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;

fn check_length(path: &str) -> Result<(), NetdevError> {
    if path.len() > PATH_MAX {
        let what = format!("vhost-user socket path '{path}' is longer than {PATH_MAX} bytes");
        return Err(NetdevError::other(&what, ENAMETOOLONG));
    }
    Ok(())
}

/// Ensures that a socket can be created at `path`: removes a socket file without a listener.
pub(super) fn remove_stale_socket(path: &str) -> Result<(), NetdevError> {
    check_length(path)?;
    let at = Path::new(path);
    if let Some(dir) = at.parent().filter(|d| !d.is_dir()) {
        let errno = if dir.exists() { ENOTDIR } else { ENOENT };
        return Err(NetdevError::other(&format!("vhost-user sock directory '{}'", dir.display()), errno));
    }
    match std::fs::symlink_metadata(at) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(NetdevError::from_io(path, &e)),
        Ok(file) if !file.file_type().is_socket() => Err(NetdevError::other(path, EEXIST)),
        Ok(_) => match UnixStream::connect(at) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(at).map_err(|e| NetdevError::from_io(path, &e))
            }
            _ => Err(NetdevError::other(path, EADDRINUSE)),
        },
    }
}

/// Checks that a guest can create its socket at `path`: nothing exists there, or a socket.
pub(super) fn check_client_path(path: &str) -> Result<(), NetdevError> {
    check_length(path)?;
    match std::fs::metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            let what = format!("vhost-server-path '{path}' is a file and no socket");
            Err(NetdevError::other(&what, ENOTSOCK))
        }
        _ => Ok(()),
    }
}

/// The directory of `path` if the directory does not exist; otherwise `None`.
pub(super) fn missing_directory(path: &str) -> Option<String> {
    let dir = Path::new(path).parent()?;
    (!dir.as_os_str().is_empty() && !dir.is_dir()).then(|| dir.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_sockets_without_a_listener_are_removed() {
        let dir = std::env::temp_dir().join(format!("vhost-path-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        std::fs::write(at("file"), "kept").unwrap();
        assert!(remove_stale_socket(&at("file")).unwrap_err().to_string().ends_with("(File exists)"));
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "kept");
        assert!(check_client_path(&at("file")).unwrap_err().to_string().contains("is a file and no socket"));
        let listener = UnixListener::bind(at("sock")).unwrap();
        assert_eq!(remove_stale_socket(&at("sock")).unwrap_err().errno(), EADDRINUSE);
        assert!(check_client_path(&at("sock")).is_ok());
        drop(listener);
        remove_stale_socket(&at("sock")).unwrap();
        assert!(!Path::new(&at("sock")).exists());
        assert_eq!(remove_stale_socket(&at("no/sock")).unwrap_err().errno(), ENOENT);
        assert_eq!(missing_directory(&at("no/sock")), Some(at("no")));
        assert!(
            remove_stale_socket(&at(&"x".repeat(107)))
                .unwrap_err()
                .to_string()
                .contains("longer than 107 bytes")
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
