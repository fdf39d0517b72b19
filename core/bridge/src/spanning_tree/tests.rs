//! Tests of both protocols in networks: networks in figures of the standards, and random networks.

use super::network::Network;
use super::port_state::Protocol;
use super::settings::Settings;
use fastrand::Rng;
use proptest::prelude::*;
use units::Millis;

/// Time after which the state of every network in these tests is stable.
const LONG: Millis = Millis::from_secs(200);

/// A network described as lines of bridges: their MAC address, and the LAN of each port.
fn network(protocol: Protocol, bridges: &[(u64, &str)]) -> Network {
    let mut network = Network::new(1);
    for (mac, lans) in bridges {
        let bridge = network.add(protocol, 0x8000, *mac);
        for (n, lan) in lans.chars().enumerate() {
            network.connect((bridge, n as u16 + 1), lan as u32, 10, 128);
        }
    }
    network
}

fn states(network: &Network) -> Vec<String> {
    (0..network.nodes.len()).map(|bridge| network.states(bridge)).collect()
}

/// IEEE 802.1D-1998 figure 8-2.
#[test]
fn stp_blocks_the_ports_of_the_figure() {
    let bridges = [(0x42, "ab"), (0x97, "cad"), (0x45, "ede"), (0x57, "bec"), (0x83, "aef")];
    let mut network = network(Protocol::Stp, &bridges[..2]);
    network.run(LONG);
    assert_eq!(states(&network), ["FF", "FFF"]);
    let mut network = self::network(Protocol::Stp, &bridges);
    network.run(LONG);
    network.check_tree();
}

/// IEEE 802.1D-2004 figure 17-6: a ring whose bridges are in the order of their identifiers.
#[test]
fn rstp_blocks_the_ports_of_the_figure() {
    let bridges =
        [(0x111, "abl"), (0x222, "bcd"), (0x333, "def"), (0x444, "fgh"), (0x555, "jhi"), (0x666, "ljk")];
    let mut network = network(Protocol::Rstp, &bridges);
    network.run(LONG);
    network.check_tree();
    assert_eq!(states(&network), ["FFF", "FFF", "FFF", "FFB", "FFF", "FFF"]);
}

/// IEEE 802.1D-2004 figure 17-7: two links between two bridges; the priority of a port decides.
#[test]
fn priorities_of_ports_decide_between_links() {
    let bridges = [(0x100, "b"), (0x111, "abdfhgec"), (0x222, "ghjlnmki")];
    let mut network = network(Protocol::Rstp, &bridges);
    network.run(LONG);
    network.check_tree();
    assert_eq!(network.states(2), "BFFFFFFF");
    network.connect((1, 6), u32::from(b'g'), 10, 112);
    network.run(LONG);
    network.check_tree();
    assert_eq!(network.states(2), "FBFFFFFF");
}

/// Two ports of a bridge at the same LAN: one of them is a backup port.
#[test]
fn one_of_two_ports_at_a_lan_forwards() {
    for protocol in [Protocol::Stp, Protocol::Rstp] {
        let mut network = network(protocol, &[(1, "ab"), (2, "acc")]);
        network.run(LONG);
        assert_eq!(states(&network), ["FF", "FFB"], "{protocol:?}");
    }
}

/// A ring of three bridges: the blocked link replaces the lost one.
#[test]
fn another_path_replaces_a_lost_link() {
    for (protocol, limit) in [(Protocol::Stp, 52), (Protocol::Rstp, 1)] {
        let mut network = network(protocol, &[(1, "ab"), (2, "bc"), (3, "ca")]);
        network.run(LONG);
        assert_eq!(states(&network), ["FF", "FF", "BF"]);
        network.set_link((0, 1), false);
        network.set_link((2, 2), false);
        network.run(Millis::from_secs(limit));
        network.check_tree();
        assert_eq!(network.states(2).chars().next(), Some('F'));
    }
}

/// A neighbour that becomes silent, without loss of the link, is detected after three hello times.
#[test]
fn rstp_misses_a_silent_neighbour() {
    let mut network = network(Protocol::Rstp, &[(1, "ab"), (2, "bc"), (3, "ca")]);
    network.run(LONG);
    network.dead.insert(u32::from(b'a'));
    network.run(Millis::from_secs(7));
    network.check_tree();
}

/// RSTP forwards at once if a neighbour agrees. An edge port forwards after the migration time.
#[test]
fn rstp_is_fast() {
    let mut network = network(Protocol::Rstp, &[(1, "ab"), (2, "bc")]);
    // The first bridge repeats its proposal after the hello time.
    network.run(Millis(2100));
    assert_eq!(states(&network), ["BF", "FB"]);
    network.run(Millis::from_secs(4));
    assert_eq!(states(&network), ["FF", "FF"]);
}

/// STP passes through listening and learning, 15 s each.
#[test]
fn stp_waits_twice_the_forward_delay() {
    let mut network = network(Protocol::Stp, &[(1, "a"), (2, "a")]);
    for (after, expected) in [(14, "l"), (2, "L"), (13, "L"), (2, "F")] {
        network.run(Millis::from_secs(after));
        assert_eq!(states(&network), [expected, expected]);
    }
}

/// A bridge with RSTP uses STP towards a neighbour with STP.
#[test]
fn rstp_falls_back_to_stp() {
    let mut network = Network::new(1);
    for (mac, protocol) in [(1, Protocol::Stp), (2, Protocol::Rstp), (3, Protocol::Rstp)] {
        let bridge = network.add(protocol, 0x8000, mac);
        network.connect((bridge, 1), bridge as u32, 10, 128);
        network.connect((bridge, 2), (bridge as u32 + 1) % 3, 10, 128);
    }
    network.run(LONG);
    network.check_tree();
    assert!(states(&network).concat().contains('B'));
}

/// With `force-protocol-version` 0 RSTP waits like STP.
#[test]
fn rstp_that_is_forced_to_stp_waits() {
    let mut network = network(Protocol::Rstp, &[(1, "a"), (2, "a")]);
    for bridge in [0, 1] {
        network.change(bridge, |settings| match settings {
            Settings::Rstp(rstp) => rstp.stp_compatible = true,
            Settings::Stp(_) => unreachable!("both use RSTP"),
        });
    }
    network.run(Millis::from_secs(25));
    assert!(!states(&network).concat().contains('F'));
    network.run(Millis::from_secs(35));
    assert_eq!(states(&network), ["F", "F"]);
}

/// The output of commands and the columns are those of Open vSwitch 3.7.1.
#[test]
fn texts_are_those_of_open_vswitch() {
    let details = |gap: &str| {
        format!(
            "  stp-priority{gap}32768\n  stp-system-id   00:00:00:00:00:01\n  stp-hello-time  2s\n  \
             stp-max-age     20s\n  stp-fwd-delay   15s\n"
        )
    };
    let stp = "  Interface  Role       State      Cost  Pri.Nbr \n  ---------- ---------- ---------- ----- -------\n  \
               p1         designated listening  10    128.1\n\n";
    let rstp = "  Interface  Role       State      Cost     Pri.Nbr \n  ---------- ---------- ---------- -------- -------\n  \
                p1         Designated Discarding 10       128.1\n\n";
    for (protocol, gap, ports) in [(Protocol::Stp, "  ", stp), (Protocol::Rstp, "    ", rstp)] {
        let network = network(protocol, &[(1, "a"), (2, "a")]);
        let (own, tree) = (details(gap), &network.nodes[0].tree);
        let expected =
            format!("---- br1 ----\nRoot ID:\n{own}  This bridge is the root\n\nBridge ID:\n{own}\n{ports}");
        assert_eq!(tree.show(), expected);
    }
    let mut network = network(Protocol::Rstp, &[(1, "a"), (2, "a")]);
    network.run(Millis(3000));
    let tree = &network.nodes[1].tree;
    assert!(tree.show().contains("  root-port       p1\n  root-path-cost  10\n"));
    let pairs = |pairs: &[(&'static str, &str)]| pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    let bridge: super::Pairs<String> = pairs(&[
        ("rstp_bridge_id", "8.000.000000000002"),
        ("rstp_bridge_port_id", "8001"),
        ("rstp_designated_id", "8.000.000000000001"),
        ("rstp_designated_port_id", "8001"),
        ("rstp_root_id", "8.000.000000000001"),
        ("rstp_root_path_cost", "10"),
    ]);
    let port: super::Pairs<String> = pairs(&[
        ("rstp_designated_bridge_id", "8.000.000000000001"),
        ("rstp_designated_path_cost", "0"),
        ("rstp_designated_port_id", "8001"),
        ("rstp_port_id", "8001"),
        ("rstp_port_role", "Root"),
        ("rstp_port_state", "Forwarding"),
    ]);
    assert_eq!(tree.status(), bridge);
    assert_eq!(tree.port_status(units::OfPort(1), network.now).unwrap().0, port);
}

/// A random network: bridges, each with ports at random LANs.
fn random_network(seed: u64, protocol: Option<Protocol>, delays: (u64, u64)) -> (Network, Rng) {
    let mut random = Rng::with_seed(seed);
    let mut network = Network::new(seed);
    (network.frame_delay, network.stop_delay_max) = delays;
    let bridges = random.usize(2..8);
    let lans = random.u32(1..10);
    let ports: Vec<Vec<u32>> =
        (0..bridges).map(|_| (0..random.usize(1..6)).map(|_| random.u32(..lans)).collect()).collect();
    let at = |lan: &u32| ports.iter().flatten().filter(|l| *l == lan).count();
    network.shared = (0..lans).filter(|lan| at(lan) > 2).collect();
    for (n, ports) in ports.iter().enumerate() {
        let other = if random.bool() { Protocol::Stp } else { Protocol::Rstp };
        let bridge = network.add(protocol.unwrap_or(other), random.u16(..) & 0xf000, n as u64 + 1);
        for (port, lan) in ports.iter().enumerate() {
            network.connect((bridge, port as u16 + 1), *lan, random.u32(1..4), random.u8(..) & 0xf0);
        }
    }
    (network, random)
}

/// Disturbs a network repeatedly, and checks that a tree results each time. If `always` is set, there must be no loop
/// in between.
fn disturb(seed: u64, protocol: Option<Protocol>, delays: (u64, u64), always: bool) {
    let (mut network, mut random) = random_network(seed, protocol, delays);
    network.checks_loops = always;
    network.run(LONG);
    network.check_tree();
    let ports: Vec<(usize, u16)> = network.lans.keys().copied().collect();
    for _ in 0..6 {
        for _ in 0..random.usize(1..4) {
            let at = ports[random.usize(..ports.len())];
            match random.u8(..4) {
                0 => network.set_link(at, false),
                1 => network.set_link(at, true),
                2 => network.connect(at, network.lans[&at], random.u32(1..4), random.u8(..) & 0xf0),
                _ => network.change(at.0, |settings| {
                    let priority = random.u16(..) & 0xf000;
                    let (Settings::Rstp(super::rstp::Settings { identifier, .. })
                    | Settings::Stp(super::stp::Settings { identifier, .. })) = settings;
                    *identifier = super::BridgeIdentifier::new(priority, identifier.mac());
                }),
            }
            network.run(Millis(random.u64(..3000)));
        }
        network.run(LONG);
        network.check_tree();
    }
}

/// Links of a network come up one after the other. There must be no loop at any time.
fn grow(seed: u64, protocol: Protocol, delays: (u64, u64)) {
    let (mut network, mut random) = random_network(seed, Some(protocol), delays);
    let ports: Vec<(usize, u16)> = network.lans.keys().copied().collect();
    let down: Vec<(usize, u16)> = ports.into_iter().filter(|_| random.bool()).collect();
    down.iter().for_each(|at| network.set_link(*at, false));
    for at in down {
        network.run(Millis(random.u64(..6000)));
        network.set_link(at, true);
    }
    network.run(LONG);
    network.check_tree();
}

/// Networks that had a loop when a port started while another port of its bridge was still stopping.
#[test]
fn rstp_starts_no_port_while_another_stops() {
    grow(3223946020051441836, Protocol::Rstp, (1, 7));
    grow(5955362618850744934, Protocol::Rstp, (2, 1028));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn stp_makes_a_tree_and_never_a_loop(seed: u64) {
        disturb(seed, Some(Protocol::Stp), (1, 0), true);
    }

    #[test]
    fn rstp_makes_a_tree(seed: u64, frames in 1u64..50, datapath in 0u64..2000) {
        // If a root is lost, information about it may circulate until it is too old, and there may be loops until then.
        // This is a property of the protocol.
        disturb(seed, Some(Protocol::Rstp), (frames, datapath), false);
    }

    #[test]
    fn rstp_makes_no_loop_while_links_come_up(seed: u64, frames in 1u64..50, datapath in 0u64..2000) {
        grow(seed, Protocol::Rstp, (frames, datapath));
    }

    #[test]
    fn both_together_make_a_tree(seed: u64) {
        disturb(seed, None, (1, 0), false);
    }
}
