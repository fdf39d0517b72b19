//! A sender chooses packets whose tuples collide in a hash without a secret, and in the entries of a worker's cache.

use conntrack::{Action, ChecksumCounts, ConnectionCache, Conntrack, Metadata, Packet, ReadPacket};
use flow::flow::ct_state::{ESTABLISHED, NEW};
use units::Millis;

mod shared;
use shared::{l3, udp};

const COMMIT: Action = Action { commit: true, ..Action::TRACK };
/// 2^12 tuples, so four for each of 1,024 shards.
const BITS: usize = 12;
/// Upper limit for the fullest shard: with random shards each has 4 of the 4,096 connections on average, and 22 is nine standard
/// deviations (of 2) more.
const FULLEST: usize = 22;

/// A packet of UDP from its network header on. `ends`: source and destination address; `ports`: source and destination.
fn packet(ends: u64, ports: u32) -> Vec<u8> {
    l3(&udp(((ends >> 32) as u32, (ports >> 16) as u16), (ends as u32, ports as u16)))
}

/// The CRC32C of two addresses and two ports, without the constant part, so that it is linear in their bits.
fn crc(ends: u64, ports: u32) -> u32 {
    let of = |ends: u64, ports: u32| packet::checksum::crc32c(&[&ends.to_be_bytes(), &ports.to_be_bytes()]);
    of(ends, ports) ^ of(0, 0)
}

/// Tuples that have the same CRC32C, whatever the initial value of the CRC is.
fn colliding() -> Vec<(u64, u32)> {
    // The bits that vary: those of the source address, and those of both ports except the highest, which stays set, so that no
    // port is 0.
    let bits = (32..64)
        .map(|bit| (1 << bit, 0))
        .chain((0..32).filter(|bit| bit % 16 != 15).map(|bit| (0, 1 << bit)));
    let mut rows: Vec<((u64, u32), u32)> = bits.map(|(e, p)| ((e, p), crc(e, p))).collect();
    for column in 0..32 {
        let Some(at) = rows.iter().position(|row| row.1 >> column & 1 != 0) else { continue };
        let pivot = rows.swap_remove(at);
        for row in rows.iter_mut().filter(|row| row.1 >> column & 1 != 0) {
            *row = ((row.0.0 ^ pivot.0.0, row.0.1 ^ pivot.0.1), row.1 ^ pivot.1);
        }
    }
    let kernel = rows.iter().filter(|row| row.1 == 0).map(|row| row.0).take(BITS);
    let mut all = vec![(0x0a00_0001_1400_0001_u64, 0x8000_8000_u32)];
    for (ends, ports) in kernel {
        all.extend_from_within(..);
        let half = all.len() / 2;
        all[half..].iter_mut().for_each(|tuple| *tuple = (tuple.0 ^ ends, tuple.1 ^ ports));
    }
    all
}

/// Tracks a packet as a worker with the cache does. Returns its state, and whether its connection was in the cache.
fn track(ct: &Conntrack, cache: &mut ConnectionCache, l3: &[u8]) -> (u8, bool) {
    let packet = Packet { ethertype: 0x0800, l3, sums: conntrack::VERIFIED };
    let (mut meta, prepared) = (Metadata::default(), ct.prepare(&COMMIT, Millis(0)));
    let found = cache.begin()
        && ct.track_cached(&packet, &mut meta, &prepared, (cache, &mut ChecksumCounts::default()));
    if !found {
        let mut read = ReadPacket::default();
        ct.read(&packet, (&meta, true), &prepared, (&mut read, &mut ChecksumCounts::default()));
        ct.prefetch(&mut read, Some(&prepared));
        ct.track_read(&read, (&mut meta, true), &prepared, cache);
    }
    // Reports a hit to the cache in any case, so that misses do not pause it.
    cache.end(1, 1);
    (meta.state, found)
}

#[test]
fn tuples_of_one_crc_fill_no_shard() {
    let tuples = colliding();
    assert_eq!(tuples.len(), 1 << BITS);
    assert!(tuples.iter().all(|t| crc(t.0, t.1) == crc(tuples[0].0, tuples[0].1)));
    let (ct, mut cache) = (Conntrack::new(7), ConnectionCache::default());
    for (ends, ports) in &tuples {
        assert_eq!(track(&ct, &mut cache, &packet(*ends, *ports)).0 & NEW, NEW);
    }
    assert_eq!(ct.count() as usize, tuples.len());
    let fullest = ct.shard_lens().into_iter().max();
    assert!(fullest.is_some_and(|n| n < FULLEST), "{fullest:?}");
}

/// Connections that collide in one cache entry are found by the index; others are found in the cache.
#[test]
fn connections_that_share_a_place_are_found() {
    let (ct, mut cache) = (Conntrack::new(7), ConnectionCache::default());
    let reply = |ends: u64, ports: u32| (ends.rotate_left(32), ports.rotate_left(16));
    let mut several = (0..2000).map(|n| (0x0a00_0001_1400_0001_u64, (1024 + n) << 16 | 53));
    let mut remembered = 0;
    for (ends, ports) in several.by_ref() {
        let (back, back_ports) = reply(ends, ports);
        track(&ct, &mut cache, &packet(ends, ports));
        track(&ct, &mut cache, &packet(back, back_ports));
        // 2,000 connections in 512 entries overwrite each other all the time.
        for (ends, ports) in [(ends, ports), (back, back_ports)] {
            let (state, found) = track(&ct, &mut cache, &packet(ends, ports));
            assert_eq!(state & ESTABLISHED, ESTABLISHED);
            remembered += u32::from(found);
        }
    }
    assert!(remembered > 0);
    for n in (0..2000).step_by(7) {
        let l3 = packet(0x0a00_0001_1400_0001, (1024 + n) << 16 | 53);
        assert_eq!(track(&ct, &mut cache, &l3).0 & ESTABLISHED, ESTABLISHED);
    }
}
