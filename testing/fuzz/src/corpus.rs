//! The stored inputs: those written by hand, and those that once made a target fail.

use crate::Target;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the directory of a target's inputs.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// Returns all inputs of a target with their file names, sorted by name.
pub fn inputs(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let entry = entry?;
        found.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    found.sort();
    Ok(found)
}
