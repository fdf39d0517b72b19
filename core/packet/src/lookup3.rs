//! Bob Jenkins's lookup3 (2006, public domain). Used for the same reason as [`murmur`](crate::murmur): so that the switch makes the same
//! choice as Open vSwitch.

/// Hashes bytes. The last round is omitted if no bytes are left over.
#[inline]
pub fn lookup3(bytes: &[u8], basis: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(basis);
    let mut state = [start; 3];
    let add = |state: &mut [u32; 3], bytes: &[u8]| {
        for (word, part) in state.iter_mut().zip(bytes.chunks(4)) {
            let mut four = [0; 4];
            four[..part.len()].copy_from_slice(part);
            *word = word.wrapping_add(u32::from_le_bytes(four));
        }
    };
    let (whole, rest) = bytes.as_chunks::<12>();
    for twelve in whole {
        add(&mut state, twelve);
        let [mut a, mut b, mut c] = state;
        let step = |x: &mut u32, y: &mut u32, z: u32, bits| {
            *x = x.wrapping_sub(*y) ^ y.rotate_left(bits);
            *y = y.wrapping_add(z);
        };
        step(&mut a, &mut c, b, 4);
        step(&mut b, &mut a, c, 6);
        step(&mut c, &mut b, a, 8);
        step(&mut a, &mut c, b, 16);
        step(&mut b, &mut a, c, 19);
        step(&mut c, &mut b, a, 4);
        state = [a, b, c];
    }
    if !rest.is_empty() {
        add(&mut state, rest);
        let [mut a, mut b, mut c] = state;
        let step = |x: &mut u32, y: u32, bits| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
        step(&mut c, b, 14);
        step(&mut a, c, 11);
        step(&mut b, a, 25);
        step(&mut c, b, 16);
        step(&mut a, c, 4);
        step(&mut b, a, 14);
        step(&mut c, b, 24);
        state = [a, b, c];
    }
    state[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // From the comments of lookup3.c (driver5).
        assert_eq!(lookup3(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(lookup3(b"Four score and seven years ago", 1), 0xcd62_8161);
    }
}
