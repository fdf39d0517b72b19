//! Inputs of an attacker that tries to make hashes collide, for tests of this crate and others (feature `adversary`).

use crate::crc::crc32c;

/// Returns the CRC32C of `word`, continued from the state `crc`, as the CPU instruction computes it. A CRC is linear,
/// so it can be computed from CRCs of byte strings.
pub fn crc_step(crc: u32, word: u64) -> u32 {
    let word = word ^ u64::from(crc);
    crc32c(&word.to_le_bytes()) ^ crc32c(&[0; 8])
}

/// Returns 2ⁿ unicast Ethernet addresses, in the upper 48 bits of a word, that have equal CRCs whatever precedes and
/// follows the word.
pub fn colliding_macs(n: u32) -> Vec<u64> {
    // Gaussian elimination: each row is a set of address bits and its CRC; rows with CRC zero form the kernel.
    let bits = (0..48).filter(|&bit| bit != 40);
    let mut rows: Vec<(u64, u32)> = bits.map(|bit| (1 << bit, crc_step(0, 1 << bit << 16))).collect();
    for column in 0..32 {
        let Some(pivot) = rows.iter().position(|(_, crc)| crc >> column & 1 == 1) else { continue };
        let (address, crc) = rows.swap_remove(pivot);
        for row in rows.iter_mut().filter(|row| row.1 >> column & 1 == 1) {
            *row = (row.0 ^ address, row.1 ^ crc);
        }
    }
    let kernel: Vec<u64> = rows.iter().filter(|row| row.1 == 0).map(|row| row.0).collect();
    assert!(kernel.len() >= n as usize, "{}", kernel.len());
    let combine = |set: u64| {
        (0..n).filter(|i| set >> i & 1 == 1).fold(0x0200_0000_0000, |mac, i| mac ^ kernel[i as usize])
    };
    (0..1 << n).map(combine).collect()
}
