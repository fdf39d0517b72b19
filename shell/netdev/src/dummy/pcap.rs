//! Writes frames to a pcap file. Source: the libpcap file format, version 2.4, with time stamps in microseconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const MAGIC: u32 = 0xa1b2_c3d4;
const SNAPLEN: u32 = 0x0004_0000;
const ETHERNET: u32 = 1;

/// An open capture file; frames are appended.
pub(super) struct Pcap {
    path: PathBuf,
    file: File,
    both_ways: bool,
}

impl Pcap {
    /// Opens `path` for appending, and writes the file header if the file is empty.
    pub(super) fn append(path: &Path, both_ways: bool) -> io::Result<Pcap> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if file.metadata()?.len() == 0 {
            let mut header = Vec::with_capacity(24);
            header.extend(MAGIC.to_ne_bytes());
            header.extend(2u16.to_ne_bytes());
            header.extend(4u16.to_ne_bytes());
            header.extend([0; 8]);
            header.extend(SNAPLEN.to_ne_bytes());
            header.extend(ETHERNET.to_ne_bytes());
            file.write_all(&header)?;
        }
        Ok(Pcap { path: path.to_owned(), file, both_ways })
    }

    /// Creates a new file if the file was deleted. If that fails, frames are still written to the deleted file.
    pub(super) fn renew(&mut self) {
        if !self.path.exists()
            && let Ok(new) = Pcap::append(&self.path, self.both_ways)
        {
            *self = new;
        }
    }

    /// Whether received frames are written to this file, too.
    pub(super) fn both_ways(&self) -> bool {
        self.both_ways
    }

    /// Appends a frame. If the disk is full, the record is dropped.
    pub(super) fn write(&mut self, frame: &[u8]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let len = frame.len() as u32;
        let mut record = Vec::with_capacity(16 + frame.len());
        record.extend((now.as_secs() as u32).to_ne_bytes());
        record.extend(now.subsec_micros().to_ne_bytes());
        record.extend(len.to_ne_bytes());
        record.extend(len.to_ne_bytes());
        record.extend(frame);
        let _ = self.file.write_all(&record);
    }
}
