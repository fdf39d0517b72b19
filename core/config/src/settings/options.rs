//! Settings of `Interface.options`, by type of port.

use super::{I32, Setting, settings};
use crate::not_built::{IPSEC, REPRESENTORS, TUNNELS};

const fn opt(key: &'static str, kinds: &'static [&'static str]) -> Setting {
    Setting::new("Interface", "options", key).of(kinds)
}

const DPDK: &[&str] = &["dpdk"];
const CLIENT: &[&str] = &["dpdkvhostuserclient"];
const VHOST: &[&str] = &["dpdkvhostuserclient", "dpdkvhostuser"];
const XDP: &[&str] = &["afxdp", "afxdp-nonpmd"];
const DUMMY: &[&str] = &["dummy", "dummy-pmd", "dummy-internal"];
const KERNEL: &[&str] = &["system", "internal", "tap"];
const PATCH: &[&str] = &["patch"];

const TUNNEL: &[&str] =
    &["geneve", "vxlan", "gre", "ip6gre", "erspan", "ip6erspan", "gtpu", "srv6", "bareudp", "lisp", "stt"];

const fn tunnel(key: &'static str) -> Setting {
    opt(key, TUNNEL)
}

const fn dummy(key: &'static str) -> Setting {
    opt(key, DUMMY).none("dummies have no such offload")
}

settings! {
    PEER = opt("peer", PATCH).text("a patch port").doc("The other end of the patch.");
    DPDK_DEVARGS = opt("dpdk-devargs", DPDK).text("a PCI address, or a DPDK device with its arguments")
        .doc("The device of the port.");
    DPDK_N_RXQ = opt("n_rxq", DPDK).held(1, 65_535, 1).doc("Receive queues.");
    N_RXQ_DESC = opt("n_rxq_desc", DPDK).int(1, I32, 2048)
        .doc("Length of receive queues, a power of two; the device may adjust it.");
    N_TXQ_DESC = opt("n_txq_desc", DPDK).int(1, I32, 2048)
        .doc("Length of send queues, a power of two; the device may adjust it.");
    RX_FLOW_CTRL = opt("rx-flow-ctrl", DPDK).flag(false).doc("Obeys pause frames.");
    TX_FLOW_CTRL = opt("tx-flow-ctrl", DPDK).flag(false).doc("Sends pause frames.");
    FLOW_CTRL_AUTONEG = opt("flow-ctrl-autoneg", DPDK).flag(false).doc("Settles pause frames with the other end.");
    DPDK_LSC_INTERRUPT = opt("dpdk-lsc-interrupt", DPDK).flag(true)
        .doc("Learns of a changed link by interrupt instead of asking.");
    VHOST_SERVER_PATH = opt("vhost-server-path", CLIENT).text("a socket").doc("The socket that the guest's side makes.");
    TX_RETRIES_MAX = opt("tx-retries-max", CLIENT).int(0, 32, 8)
        .doc("How often a burst is tried again when the guest's queue is full.");
    XDP_N_RXQ = opt("n_rxq", XDP).strict(1, 16, 1).doc("Receive queues, as many as the device has.");
    XDP_MODE = opt("xdp-mode", XDP)
        .text_or("best-effort, native-with-zerocopy, native or generic", "best-effort")
        .doc("Where the kernel hands packets over.");
    DUMMY_N_RXQ = opt("n_rxq", DUMMY).held(1, 1024, 1).doc("Receive queues of a dummy (tests).");
    DUMMY_N_TXQ = opt("n_txq", DUMMY).held(1, 1024, 1).doc("Send queues of a dummy (tests).");
    DUMMY_IFINDEX = opt("ifindex", DUMMY).opt_int(0, I32).doc("The index of a dummy (tests).");
    DUMMY_NUMA_ID = opt("numa_id", DUMMY).int(0, I32, 0).doc("The NUMA node of a dummy (tests).");
    DUMMY_OL_TSO_SEGSZ = opt("ol_tso_segsz", DUMMY).opt_int(0, 65_535)
        .doc("The segments of TCP that a dummy receives in one piece; it sends such pieces as they are (tests).");
    DUMMY_STREAM = opt("stream", DUMMY).text("a target").doc("Where a dummy connects to (tests).");
    DUMMY_PSTREAM = opt("pstream", DUMMY).text("a target").doc("Where a dummy listens (tests).");
    DUMMY_PCAP = opt("pcap", DUMMY).text("a file").doc("A capture of all packets of a dummy (tests).");
    DUMMY_RXQ_PCAP = opt("rxq_pcap", DUMMY).text("a file").doc("A capture of what a dummy receives (tests).");
    DUMMY_TX_PCAP = opt("tx_pcap", DUMMY).text("a file").doc("A capture of what a dummy sends (tests).");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    opt("vhost-max-queue-pairs", VHOST)
        .int(1, 128, 1)
        .none("a port has as many queues as its guest offers")
        .doc("The most queue pairs of the guest."),
    opt("n_rxq", VHOST).none("a port has as many queues as its guest offers").text("").doc("Receive queues."),
    opt("dpdk-vf-mac", DPDK).text("an Ethernet address").asks_for(REPRESENTORS).doc("A VF's address."),
    opt("rx-steering", DPDK)
        .choice(&["rss", "rss+lacp"], "rss")
        .none("all queues are filled by RSS")
        .doc("Gives LACP a receive queue of its own."),
    opt("n_rxq", KERNEL).none("a device of the kernel is read as one queue").text("").doc("Receive queues."),
    tunnel("remote_ip").text("an IP address, or flow").doc("The other end."),
    tunnel("local_ip").text("an IP address, or flow").doc("The own end."),
    tunnel("in_key").text("a number, or flow").doc("The key that packets come with."),
    tunnel("out_key").text("a number, or flow").doc("The key that packets leave with."),
    tunnel("key").text("a number, or flow").doc("Both keys."),
    tunnel("dst_port").opt_int(1, 65_535).doc("The UDP port."),
    tunnel("tos").text("a number, or inherit").doc("The type of service outside."),
    tunnel("ttl").text("a number, or inherit").doc("The time to live outside."),
    tunnel("df_default").flag(true).doc("Forbids fragments outside."),
    tunnel("egress_pkt_mark").text("a number").doc("The mark of packets that leave."),
    tunnel("exts").text("gbp or gpe").doc("Extensions of VXLAN."),
    tunnel("packet_type")
        .text_or("legacy_l2, legacy_l3 or ptap", "legacy_l2; of gtpu and srv6 legacy_l3")
        .doc("What the tunnel carries."),
    tunnel("seq").flag(false).doc("Numbers packets of GRE."),
    tunnel("csum").flag(false).doc("Checksums outside; over IPv6, UDP has them unless this is false."),
    tunnel("psk").asks_for(IPSEC).text("").doc("A shared key for IPsec."),
    tunnel("remote_cert").asks_for(IPSEC).text("a file").doc("The other end's certificate for IPsec."),
    tunnel("remote_name").asks_for(IPSEC).text("").doc("The other end's name for IPsec."),
    tunnel("erspan_idx").text("a number, or flow").doc("The index of ERSPAN."),
    tunnel("erspan_ver").text("1, 2, or flow").doc("Its version."),
    tunnel("erspan_dir").text("0, 1, or flow").doc("Its direction."),
    tunnel("erspan_hwid").text("a number, or flow").doc("Its hardware id."),
    opt("payload_type", TUNNELS.kinds).detail_of(TUNNELS).text("").doc("What bareudp carries."),
    tunnel("srv6_segs").text("IPv6 addresses, with commas").doc("The path of SRv6."),
    tunnel("srv6_flowlabel").choice(&["zero", "copy", "compute"], "copy").doc("Its flow label."),
    dummy("ol_ip_rx_csum_set_good").flag(false).doc("A dummy vouches for IP checksums (tests)."),
    dummy("ol_ip_rx_csum_set_bad").flag(false).doc("It refutes them."),
    dummy("ol_ip_rx_csum_set_partial").flag(false).doc("It leaves them partial."),
    dummy("ol_l4_rx_csum_set_good").flag(false).doc("It vouches for TCP and UDP checksums."),
    dummy("ol_l4_rx_csum_set_bad").flag(false).doc("It refutes them."),
    dummy("ol_l4_rx_csum_set_partial").flag(false).doc("It leaves them partial."),
    dummy("ol_ip_tx_csum").flag(false).doc("It makes IP checksums."),
    dummy("ol_ip_tx_csum_disabled").flag(false).doc("It does not."),
    dummy("ol_l4_tx_csum").flag(false).doc("It makes TCP and UDP checksums."),
    dummy("ol_l4_tx_csum_disabled").flag(false).doc("It does not."),
    dummy("ol_out_ip_tx_csum").flag(false).doc("It makes outer IP checksums."),
    dummy("ol_out_ip_tx_csum_disabled").flag(false).doc("It does not."),
    dummy("ol_out_udp_tx_csum").flag(false).doc("It makes outer UDP checksums."),
    dummy("ol_out_udp_tx_csum_disabled").flag(false).doc("It does not."),
];
