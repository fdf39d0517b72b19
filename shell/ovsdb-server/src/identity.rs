//! Generates random UUIDs (version 4). Random bytes for 64 UUIDs are read at once, since a transaction needs three UUIDs
//! and each read is a system call.

use ovsdb::Uuid;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};

/// Number of bytes of a UUID.
const LEN: usize = 16;
const POOL_LEN: usize = 64 * LEN;

/// Unused random bytes.
#[derive(Default)]
struct Pool {
    source: Option<File>,
    bytes: Vec<u8>,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl Pool {
    fn take(&mut self) -> io::Result<[u8; LEN]> {
        if self.bytes.is_empty() {
            let source = match &mut self.source {
                Some(source) => source,
                none => none.insert(File::open("/dev/urandom")?),
            };
            let mut bytes = vec![0; POOL_LEN];
            source.read_exact(&mut bytes)?;
            self.bytes = bytes;
        }
        let mut taken = [0; LEN];
        taken.copy_from_slice(&self.bytes[self.bytes.len() - LEN..]);
        self.bytes.truncate(self.bytes.len() - LEN);
        Ok(taken)
    }
}

/// A new UUID.
pub fn random_uuid() -> Uuid {
    let bytes = POOL.with_borrow_mut(Pool::take);
    // If the random device cannot be read, each UUID costs a system call.
    bytes.map_or_else(|_| Uuid::new_v4(), |bytes| uuid::Builder::from_random_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_are_random_and_different() {
        let all: BTreeSet<Uuid> = (0..1000).map(|_| random_uuid()).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|uuid| uuid.get_version_num() == 4));
    }
}
