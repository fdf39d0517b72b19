//! Reads the flow file of `dpctl/{add,mod,del}-flows`.
//!
//! The client names the file, and the main loop reads it. So the read must neither block nor use memory without limit: only regular files
//! up to [`LEN_MAX`] are read.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Maximum length of a flow file in bytes: 64 MiB hold about 400,000 flows, twice the default `flow-limit`.
const LEN_MAX: u64 = 64 << 20;

/// The text of a flow file.
pub(crate) fn read(path: &Path) -> Result<String> {
    // Without O_NONBLOCK, the open of a FIFO blocks until a writer opens it. With O_NOCTTY, a terminal does not become the controlling
    // terminal of the process.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if !kind.is_file() {
        return Err(Errno::INVAL.into());
    }
    // The limit holds for the bytes that are read: files of /proc have length 0, and a file may grow during the read.
    let mut text = String::new();
    file.take(LEN_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LEN_MAX {
        return Err(Error::other(format!("File too large: the limit is {} MiB", LEN_MAX >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};

    /// The reason in the error that the client gets for a path.
    fn error_of(path: &Path) -> String {
        runtime::error_text(&read(path).expect_err("an error"))
    }

    #[test]
    fn only_regular_files_of_limited_length_are_read() {
        let dir = std::env::temp_dir().join(format!("flow-file-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let (text, fifo, long) = (dir.join("text"), dir.join("fifo"), dir.join("long"));
        std::fs::write(&text, "in_port(1) drop\n").expect("a file");
        assert_eq!(read(&text).expect("the text"), "in_port(1) drop\n");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        assert_eq!(error_of(&fifo), "Invalid argument");
        assert_eq!(error_of(Path::new("/dev/zero")), "Invalid argument");
        assert_eq!(error_of(&dir), "Is a directory");
        assert_eq!(error_of(&dir.join("no")), "No such file or directory");
        // A sparse file: all its bytes are 0.
        let sparse = File::create(&long).expect("a file");
        sparse.set_len(LEN_MAX).expect("a length");
        assert_eq!(read(&long).expect("the text").len() as u64, LEN_MAX);
        sparse.set_len(LEN_MAX + 1).expect("a length");
        assert_eq!(error_of(&long), "File too large: the limit is 64 MiB");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
