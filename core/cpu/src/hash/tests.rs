use super::*;
use crate::adversary::{colliding_macs, crc_step};
use std::collections::HashMap;

#[test]
fn the_fast_way_agrees_with_the_reference_and_masked_bits_do_not_count() {
    let mut random = fastrand::Rng::with_seed(1);
    for n in 0..40 {
        let lines: Vec<Line> = (0..n).map(|_| std::array::from_fn(|_| random.u64(..))).collect();
        let mask = std::array::from_fn(|i| if (n + i) % 3 == 0 { 0 } else { random.u64(..) });
        let secret = Secret::new(random.u64(..));
        let (mut fast, mut slow) = (vec![0; n], vec![0; n]);
        hash_lines(&lines, &mask, &secret, &mut fast);
        hash_lines_scalar(&lines, &mask, &secret, &mut slow);
        assert_eq!(fast, slow);
        let (mut sums, mut slow_sums) = (vec![0; n], vec![0; n]);
        sum_lines(&lines, &mask, &secret, &mut sums);
        sum_lines_scalar(&lines, &mask, &secret, &mut slow_sums);
        assert_eq!(sums, slow_sums);
        let column: Vec<u64> = (0..n).map(|_| random.u64(..)).collect();
        let (place, mask_of_word) = ((&secret, 8 + n), random.u64(..));
        add_column(&column, mask_of_word, place, &mut sums);
        add_column_scalar(&column, mask_of_word, place, &mut slow_sums);
        assert_eq!(sums, slow_sums);
        reduce_sums(&sums, &secret, &mut fast);
        reduce_sums_scalar(&sums, &secret, &mut slow);
        assert_eq!(fast, slow);
        hash_lines(&lines, &mask, &secret, &mut fast);
        for (line, hash) in lines.iter().zip(&fast) {
            let unmasked = std::array::from_fn(|i| line[i] ^ random.u64(..) & !mask[i]);
            assert_eq!(hash_line(&unmasked, &mask, &secret), *hash);
        }
    }
}

#[test]
fn secrets_and_places_count() {
    let (a, b) = (Secret::new(1), Secret::new(2));
    let at = |i: usize| -> Line { std::array::from_fn(|j| u64::from(i == j)) };
    let all = [u64::MAX; 8];
    let mut hashes: Vec<u32> = (0..8).flat_map(|i| [&a, &b].map(|s| hash_line(&at(i), &all, s))).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 16);
}

/// An earlier hash: two CRC chains over the words that the mask selects, multiplied and folded.
fn linear(line: &Line, mask: &Line, seed: u32) -> u32 {
    let mut chains = [seed, !seed];
    for (i, at) in (0..8).filter(|&at| mask[at] != 0).enumerate() {
        chains[i % 2] = crc_step(chains[i % 2], line[at] & mask[at]);
    }
    let x = (u64::from(chains[0]) << 32 | u64::from(chains[1])).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 32) as u32
}

/// A mask like that of a learning switch: ingress port, both Ethernet addresses, type and VLAN.
const BY_STATION: Line = [u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0, 0];

/// The key of a packet with a source address.
fn from(mac: u64) -> Line {
    [1 << 16, 0x0200_0000_0002_0800, mac << 16, 0, 0, 0, 0, 0]
}

/// The unevenness of hashes in 2ᵇⁱᵗˢ buckets, selected by the bits from `shift` on: pairs in one bucket, divided by
/// their expected number for random numbers; and the longest chain.
fn unevenness(hashes: &[u32], bits: u32, shift: u32) -> (f64, u64) {
    let mut buckets: HashMap<u32, u64> = HashMap::new();
    hashes.iter().for_each(|h| *buckets.entry(h >> shift & ((1 << bits) - 1)).or_default() += 1);
    let pairs: u64 = buckets.values().map(|n| n * (n - 1) / 2).sum();
    let n = hashes.len() as f64;
    (pairs as f64 / (n * (n - 1.0) / 2.0 / f64::from(1 << bits)), *buckets.values().max().unwrap())
}

/// Checks that buckets by low, middle and high bits are as even as with random numbers.
fn assert_even(hashes: &[u32], what: &str) {
    let bits = hashes.len().ilog2();
    for shift in [0, (32 - bits) / 2, 32 - bits] {
        let (pairs, longest) = unevenness(hashes, bits, shift);
        assert!(
            pairs < 1.1 && longest < 14,
            "{what}: {pairs} times the pairs of random numbers, a chain of {longest}"
        );
    }
    let mut all = hashes.to_vec();
    all.sort_unstable();
    all.dedup();
    // 2^15 random numbers of 32 bits have an eighth of a pair on average.
    assert!(hashes.len() - all.len() <= 3, "{what}: {} equal hashes", hashes.len() - all.len());
}

#[test]
fn addresses_that_collide_under_a_crc_do_not_collide() {
    let macs = colliding_macs(15);
    for seed in [1, 77, 0xdead_beef] {
        let first = linear(&from(macs[0]), &BY_STATION, seed);
        assert!(macs.iter().all(|&mac| linear(&from(mac), &BY_STATION, seed) == first));
    }
    for seed in 0..20 {
        let secret = Secret::new(seed);
        let lines: Vec<Line> = macs.iter().map(|&mac| from(mac)).collect();
        let mut hashes = vec![0; lines.len()];
        hash_lines(&lines, &BY_STATION, &secret, &mut hashes);
        assert_even(&hashes, "kernel of the CRC");
    }
}

/// Sets of keys with much structure, as scans and counters generate them.
#[test]
fn keys_in_order_are_spread_as_random_ones() {
    type Keys = fn(u64) -> Line;
    let n = 1u64 << 15;
    let sets: [(&str, Keys); 8] = [
        ("addresses one after another", |i| from(0x0200_0000_0000 + i)),
        ("addresses 64 Ki apart", |i| from(0x0200_0000_0000 + (i << 16))),
        ("the highest bits of unicast addresses", |i| from((i & 0xff) << 32 | (i >> 8) << 41)),
        ("addresses by Gray's code", |i| from(0x0200_0000_0000 + (i ^ i >> 1))),
        ("networks", |i| [1 << 16, 0x800, i << 49, 0, 0, 0, 0, 0]),
        ("both addresses", |i| [1 << 16, i << 16 | 0x800, i << 16, 0, 0, 0, 0, 0]),
        ("one bit in each of few places", |i| [i & 31, i >> 5 & 31, i >> 10, 0, 0, 0, 0, 0]),
        ("both halves of a word", |i| [0, i << 32 | i, 0, 0, 0, 0, 0, 0]),
    ];
    for (what, key) in sets {
        for seed in 0..10 {
            let secret = Secret::new(seed);
            let hashes: Vec<u32> = (0..n).map(|i| hash_line(&key(i), &BY_STATION, &secret)).collect();
            assert_even(&hashes, what);
        }
    }
}

/// Returns how often the best difference of two keys makes them collide, divided by the rate of random hashes.
///
/// An attacker without the seed can still search for differences that collide under many seeds, and use the best ones. So this function
/// selects the best of many differences under some seeds, and counts their collisions under other seeds.
fn best_difference(hash: impl Fn(&Line, u64) -> u32) -> f64 {
    const LEARN: u64 = 200;
    const USE: u64 = 4000;
    const BITS: u32 = 6;
    let base = from(0x0211_2233_4455);
    // The share of seeds under which `base` and `other` collide: in the low bits (which select a bucket) or in the high
    // bits (the signature), whichever is larger.
    let share = |other: &Line, seeds: std::ops::Range<u64>| {
        let n = (seeds.end - seeds.start) as f64;
        let (mut low, mut high) = (0.0, 0.0);
        for seed in seeds {
            let difference = hash(&base, seed) ^ hash(other, seed);
            low += f64::from(u8::from(difference << (32 - BITS) == 0));
            high += f64::from(u8::from(difference >> (32 - BITS) == 0));
        }
        f64::max(low, high) / n
    };
    let mut others: Vec<Line> = Vec::new();
    let bits: Vec<(usize, u32)> = (0..3).flat_map(|w| (0..64).map(move |b| (w, b))).collect();
    for (i, &(w, b)) in bits.iter().enumerate() {
        let mut one = base;
        one[w] ^= 1 << b;
        others.push(one);
        let mut sum = base;
        sum[w] = sum[w].wrapping_add(1 << b);
        others.push(sum);
        // Pairs of bits: neighbours, and bits half a word or a whole word apart, where terms might cancel.
        for step in [1, 32, 64] {
            if let Some(&(v, c)) = bits.get(i + step) {
                let mut two = one;
                two[v] ^= 1 << c;
                others.push(two);
            }
        }
    }
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..300 {
        let mut other = base;
        (0..3).for_each(|i| other[i] ^= random.u64(..) & random.u64(..) & random.u64(..));
        others.push(other);
    }
    let mut found: Vec<(f64, Line)> = others.iter().map(|o| (share(o, 0..LEARN), *o)).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = found[..20].iter().map(|(_, other)| share(other, LEARN..LEARN + USE));
    best.fold(0.0, f64::max) * f64::from(1 << BITS)
}

#[test]
fn no_difference_collides_under_more_seeds_than_it_should() {
    let secrets: Vec<Secret> = (0..4200).map(Secret::new).collect();
    let best = best_difference(|line, seed| hash_line(line, &BY_STATION, &secrets[seed as usize]));
    // By chance, a difference collides under 62.5 of 4,000 seeds. The best of 20 differences collides under 1.4 times as
    // many.
    assert!(best < 1.8, "a difference collides {best} times as often as by chance");
    // The search does find weaknesses: those of the CRC, and of a product without a secret.
    assert!(best_difference(|line, seed| linear(line, &BY_STATION, seed as u32)) > 3.0);
    let product = |line: &Line, seed: u64| {
        let x = line[..3].iter().fold(seed, |x, w| (x ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (x ^ x >> 32) as u32
    };
    assert!(best_difference(product) > 3.0);
}

/// Words that cancel each other in a chain without secrets: the second removes the difference of the first.
#[test]
fn a_chain_has_no_words_that_cancel() {
    let step = |hash: u64, word: u64| {
        let p = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f_u128;
        p as u64 ^ ((p >> 64) as u64).rotate_left(23)
    };
    let (first, second) = (0x0211_2233_4455u64, 7u64);
    let words = |i: u64| [first + i, second ^ step(0, first) ^ step(0, first + i)];
    let pairs: Vec<[u64; 2]> = (0..1 << 12).map(words).collect();
    let known = |[a, b]: [u64; 2]| step(step(0, a), b);
    assert!(pairs.iter().all(|p| known(*p) == known(pairs[0])));
    for seed in 1..20 {
        let chain = KeyedHash64::new(seed);
        let hashes: Vec<u32> = pairs.iter().map(|p| (chain.of(*p) >> 32) as u32).collect();
        assert_even(&hashes, "words that cancel");
        let counted: Vec<u32> = (0..1u64 << 12).map(|i| chain.of([i, 7]) as u32).collect();
        assert_even(&counted, "words one after another");
    }
}
