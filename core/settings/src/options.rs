//! Settings of `Interface.options`, by type of port.

use crate::not_built::{IPSEC, REPRESENTORS, TUNNELS};
use crate::setting::{I32_MAX, Setting, settings};

const fn opt(key: &'static str, kinds: &'static [&'static str]) -> Setting {
    Setting::new("Interface", "options", key).for_kinds(kinds)
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

settings! {
    PEER = opt("peer", PATCH).text("a patch port").doc("The peer patch port.");
    DPDK_DEVARGS = opt("dpdk-devargs", DPDK).text("a PCI address, or a DPDK device with its arguments")
        .doc("The device of the port.");
    DPDK_N_RXQ = opt("n_rxq", DPDK).clamped(1, 65_535, 1).doc("Number of rx queues.");
    N_RXQ_DESC = opt("n_rxq_desc", DPDK).int(1, I32_MAX, 2048)
        .doc("Length of rx queues, a power of two; the device may adjust it.");
    N_TXQ_DESC = opt("n_txq_desc", DPDK).int(1, I32_MAX, 2048)
        .doc("Length of tx queues, a power of two; the device may adjust it.");
    RX_FLOW_CTRL = opt("rx-flow-ctrl", DPDK).flag(false).doc("Honours received pause frames.");
    TX_FLOW_CTRL = opt("tx-flow-ctrl", DPDK).flag(false).doc("Sends pause frames.");
    FLOW_CTRL_AUTONEG = opt("flow-ctrl-autoneg", DPDK).flag(false).doc("Negotiates pause frames with the link partner.");
    DPDK_LSC_INTERRUPT = opt("dpdk-lsc-interrupt", DPDK).flag(true)
        .doc("Detects link changes by interrupt instead of polling.");
    VHOST_SERVER_PATH = opt("vhost-server-path", CLIENT).text("a socket").doc("The socket that the guest's side (QEMU) creates.");
    TX_RETRIES_MAX = opt("tx-retries-max", CLIENT).int(0, 32, 8)
        .doc("Maximum number of retries when the guest's queue is full.");
    XDP_N_RXQ = opt("n_rxq", XDP).strict(1, 16, 1).doc("Number of rx queues, as many as the device has.");
    XDP_N_RXQ_DESC = opt("n_rxq_desc", XDP).clamped(64, 2048, 2048)
        .doc("Buffers of each rx queue; with other_config:rx-pool=spp its high watermark.");
    XDP_MODE = opt("xdp-mode", XDP)
        .text_or("best-effort, native-with-zerocopy, native or generic", "best-effort")
        .doc("The XDP mode of the device.");
    DUMMY_N_RXQ = opt("n_rxq", DUMMY).clamped(1, 1024, 1).doc("Number of rx queues of a dummy device (tests).");
    DUMMY_N_TXQ = opt("n_txq", DUMMY).clamped(1, 1024, 1).doc("Number of tx queues of a dummy device (tests).");
    DUMMY_IFINDEX = opt("ifindex", DUMMY).opt_int(0, I32_MAX).doc("Interface index of a dummy device (tests).");
    DUMMY_NUMA_ID = opt("numa_id", DUMMY).int(0, I32_MAX, 0).doc("NUMA node of a dummy device (tests).");
    DUMMY_OL_TSO_SEGSZ = opt("ol_tso_segsz", DUMMY).opt_int(0, 65_535)
        .doc("Segment size of merged TCP packets that a dummy device receives; it also sends merged packets unsplit (tests).");
    DUMMY_OL_IP_RX_CSUM_SET_GOOD = opt("ol_ip_rx_csum_set_good", DUMMY).flag(false)
        .doc("A dummy device states that received IP checksums are right (tests).");
    DUMMY_OL_IP_RX_CSUM_SET_BAD = opt("ol_ip_rx_csum_set_bad", DUMMY).flag(false)
        .doc("A dummy device states that received IP checksums are wrong; they are kept as they are (tests).");
    DUMMY_OL_IP_RX_CSUM_SET_PARTIAL = opt("ol_ip_rx_csum_set_partial", DUMMY).flag(false)
        .doc("IP checksums of packets that a dummy device receives are still to be computed (tests).");
    DUMMY_OL_L4_RX_CSUM_SET_GOOD = opt("ol_l4_rx_csum_set_good", DUMMY).flag(false)
        .doc("A dummy device states that received TCP and UDP checksums are right (tests).");
    DUMMY_OL_L4_RX_CSUM_SET_BAD = opt("ol_l4_rx_csum_set_bad", DUMMY).flag(false)
        .doc("A dummy device states that received TCP and UDP checksums are wrong; they are kept as they are (tests).");
    DUMMY_OL_L4_RX_CSUM_SET_PARTIAL = opt("ol_l4_rx_csum_set_partial", DUMMY).flag(false)
        .doc("TCP and UDP checksums of packets that a dummy device receives are still to be computed (tests).");
    DUMMY_OL_IP_TX_CSUM = opt("ol_ip_tx_csum", DUMMY).flag(false)
        .doc("A dummy device offers to compute IP checksums (tests).");
    DUMMY_OL_IP_TX_CSUM_DISABLED = opt("ol_ip_tx_csum_disabled", DUMMY).flag(false)
        .doc("A dummy device offers to compute IP checksums, but leaves those that it should compute as they are (tests).");
    DUMMY_OL_L4_TX_CSUM = opt("ol_l4_tx_csum", DUMMY).flag(false)
        .doc("A dummy device offers to compute TCP and UDP checksums (tests).");
    DUMMY_OL_L4_TX_CSUM_DISABLED = opt("ol_l4_tx_csum_disabled", DUMMY).flag(false)
        .doc("A dummy device offers to compute TCP and UDP checksums, but leaves those that it should compute as they are (tests).");
    DUMMY_OL_OUT_IP_TX_CSUM = opt("ol_out_ip_tx_csum", DUMMY).flag(false)
        .doc("A dummy device offers to compute IP checksums of tunnel headers (tests).");
    DUMMY_OL_OUT_IP_TX_CSUM_DISABLED = opt("ol_out_ip_tx_csum_disabled", DUMMY).flag(false)
        .doc("A dummy device offers to compute IP checksums of tunnel headers, but leaves those that it should compute as they are (tests).");
    DUMMY_OL_OUT_UDP_TX_CSUM = opt("ol_out_udp_tx_csum", DUMMY).flag(false)
        .doc("A dummy device offers to compute UDP checksums of tunnel headers (tests).");
    DUMMY_OL_OUT_UDP_TX_CSUM_DISABLED = opt("ol_out_udp_tx_csum_disabled", DUMMY).flag(false)
        .doc("A dummy device offers to compute UDP checksums of tunnel headers, but leaves those that it should compute as they are (tests).");
    DUMMY_STREAM = opt("stream", DUMMY).text("a target").doc("Target that a dummy device connects to (tests).");
    DUMMY_PSTREAM = opt("pstream", DUMMY).text("a target").doc("Target that a dummy device listens on (tests).");
    DUMMY_PCAP = opt("pcap", DUMMY).text("a file").doc("Capture file of all packets of a dummy device (tests).");
    DUMMY_RXQ_PCAP = opt("rxq_pcap", DUMMY).text("a file").doc("Capture file of packets that a dummy device receives (tests).");
    DUMMY_TX_PCAP = opt("tx_pcap", DUMMY).text("a file").doc("Capture file of packets that a dummy device sends (tests).");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    opt("vhost-max-queue-pairs", VHOST)
        .int(1, 128, 1)
        .without_effect("a port has as many queues as the guest offers")
        .doc("Maximum number of queue pairs of the guest."),
    opt("n_rxq", VHOST)
        .without_effect("a port has as many queues as the guest offers")
        .text("")
        .doc("Number of rx queues."),
    opt("dpdk-vf-mac", DPDK).text("an Ethernet address").needs(REPRESENTORS).doc("A VF's address."),
    opt("rx-steering", DPDK)
        .choice(&["rss", "rss+lacp"], "rss")
        .without_effect("all queues use RSS")
        .doc("Receives LACP in a separate rx queue."),
    opt("n_rxq", KERNEL)
        .without_effect("a kernel device has one rx queue here")
        .text("")
        .doc("Number of rx queues."),
    tunnel("remote_ip").text("an IP address, or flow").doc("The remote address."),
    tunnel("local_ip").text("an IP address, or flow").doc("The local address."),
    tunnel("in_key").text("a number, or flow").doc("The key of received packets."),
    tunnel("out_key").text("a number, or flow").doc("The key of sent packets."),
    tunnel("key").text("a number, or flow").doc("The key of received and sent packets."),
    tunnel("dst_port").opt_int(1, 65_535).doc("The UDP destination port."),
    tunnel("tos").text("a number, or inherit").doc("The type of service in the outer header."),
    tunnel("ttl").text("a number, or inherit").doc("The TTL in the outer header."),
    tunnel("df_default").flag(true).doc("Sets the `don't fragment` flag in the outer header."),
    tunnel("egress_pkt_mark").text("a number").doc("The packet mark of sent packets."),
    tunnel("exts").text("gbp or gpe").doc("Extensions of VXLAN."),
    tunnel("packet_type")
        .text_or("legacy_l2, legacy_l3 or ptap", "legacy_l2; of gtpu and srv6 legacy_l3")
        .doc("The packet types that the tunnel carries."),
    tunnel("seq").flag(false).doc("Adds sequence numbers to GRE packets."),
    tunnel("csum")
        .flag(false)
        .doc("Adds a checksum to the outer header; UDP over IPv6 has one unless this is false."),
    tunnel("psk").needs(IPSEC).text("").doc("A shared key for IPsec."),
    tunnel("remote_cert").needs(IPSEC).text("a file").doc("The peer's certificate for IPsec."),
    tunnel("remote_name").needs(IPSEC).text("").doc("The peer's name for IPsec."),
    tunnel("erspan_idx").text("a number, or flow").doc("The index of ERSPAN."),
    tunnel("erspan_ver").text("1, 2, or flow").doc("The version of ERSPAN."),
    tunnel("erspan_dir").text("0, 1, or flow").doc("The direction of ERSPAN."),
    tunnel("erspan_hwid").text("a number, or flow").doc("The hardware id of ERSPAN."),
    opt("payload_type", TUNNELS.kinds)
        .detail_of(TUNNELS)
        .text("")
        .doc("The Ethernet type that bareudp carries."),
    tunnel("srv6_segs").text("IPv6 addresses, with commas").doc("The segment list of SRv6."),
    tunnel("srv6_flowlabel")
        .choice(&["zero", "copy", "compute"], "copy")
        .doc("The flow label of the outer header of SRv6."),
];
