//! All metrics, in the order of the pages.

use crate::metric::{Kind, Metric, Unit};
use crate::object::Object;

/// Rows by object: `NAME = "name", Kind, Unit`, with the meaning as documentation.
macro_rules! metrics {
    ($($object:ident { $(#[doc = $help:literal] $id:ident = $name:literal, $kind:ident, $unit:ident;)* })*) => {
        /// The indexes of metrics in the table.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($($id,)*)* }

        $($(
            #[doc = $help]
            pub static $id: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                object: Object::$object,
                help: $help.trim_ascii(),
                index: Index::$id as usize,
            };
        )*)*

        /// All metrics.
        pub static ALL: &[&Metric] = &[$($(&$id,)*)*];
    };
}

metrics! {
    Process {
        /// CPU time of the process.
        CPU_SECONDS = "process_cpu_seconds_total", Counter, Seconds;
        /// Resident memory of the process.
        RESIDENT_BYTES = "process_resident_memory_bytes", Gauge, Bytes;
        /// Virtual memory of the process.
        VIRTUAL_BYTES = "process_virtual_memory_bytes", Gauge, Bytes;
        /// Open file descriptors.
        OPEN_FDS = "process_open_fds", Gauge, None;
        /// The most file descriptors that the process may open.
        MAX_FDS = "process_max_fds", Gauge, None;
        /// Start of the process, in seconds since 1970.
        START_SECONDS = "process_start_time_seconds", Gauge, Seconds;
        /// Threads of the process.
        THREADS = "process_threads", Gauge, None;
        /// Frequency of the time stamp counter, to convert metrics in cycles to time.
        CYCLES_HERTZ = "sluice_cycles_frequency_hertz", Gauge, Hertz;
        /// Whether the configuration of the database is in force (1) or the daemon is still starting (0).
        CONFIGURED = "sluice_configured", Gauge, None;
        /// Whether the database is connected.
        DATABASE_CONNECTED = "sluice_database_connected", Gauge, None;
        /// Number of the configuration that the database asks for (next_cfg).
        DATABASE_NEXT_CFG = "sluice_database_next_cfg", Gauge, None;
        /// Interfaces that could not be created or whose device is gone.
        FAILED_INTERFACES = "sluice_failed_interfaces", Gauge, None;
        /// Age of the view that the main thread last published for the metrics. Counters of poll threads are read when metrics are requested.
        VIEW_AGE = "sluice_metrics_view_age_seconds", Gauge, Seconds;
        /// CPU time of the main thread for publishing the state that metrics show.
        PUBLISH_SECONDS = "sluice_publish_cpu_seconds_total", Counter, Seconds;
        /// CPU time of the thread that answers requests for metrics.
        SERVER_SECONDS = "sluice_metrics_server_cpu_seconds_total", Counter, Seconds;
        /// Open connections to the metrics server.
        SERVER_CONNECTIONS = "sluice_metrics_server_connections", Gauge, None;
        /// Connections that the metrics server closed: too slow, or more than its limit.
        SERVER_CLOSED = "sluice_metrics_server_closed_connections_total", Counter, None;
    }
    Build {
        /// The version of the switch, and the version of Open vSwitch whose interfaces it has.
        BUILD = "sluice_build_info", Info, None;
    }
    Omitted {
        /// Objects that are not in the metrics because their kind has reached its limit.
        OMITTED = "sluice_metrics_omitted_objects", Gauge, None;
    }
    Answer {
        /// Requests that the metrics server has answered, by status code.
        ANSWERS = "sluice_metrics_server_answers_total", Counter, None;
    }
    Datapath {
        /// Packets received from ports.
        DP_RECEIVED = "sluice_datapath_received_packets_total", Counter, None;
        /// Packets that were created as copies, or that the control half sent.
        DP_CREATED = "sluice_datapath_created_packets_total", Counter, None;
        /// Packets that devices accepted.
        DP_SENT = "sluice_datapath_sent_packets_total", Counter, None;
        /// Packets that were delivered to the control half.
        DP_DELIVERED = "sluice_datapath_delivered_packets_total", Counter, None;
        /// Packets that were dropped, for all reasons.
        DP_DROPPED = "sluice_datapath_dropped_packets_total", Counter, None;
        /// Packets that went through the tables again, for example after connection tracking.
        DP_RECIRCULATED = "sluice_datapath_recirculated_packets_total", Counter, None;
        /// Packets that wait for the answer to an upcall.
        DP_PARKED = "sluice_datapath_parked_packets", Gauge, None;
        /// Fragments that wait for the rest of their datagram.
        DP_FRAGMENTS = "sluice_datapath_waiting_fragments", Gauge, None;
        /// Look-ups that the flow cache answered.
        CACHE_HITS = "sluice_flow_cache_hits_total", Counter, None;
        /// Look-ups that the smaller cache in front of the flow cache answered; included in sluice_flow_cache_hits_total.
        FRONT_HITS = "sluice_flow_cache_front_hits_total", Counter, None;
        /// Look-ups that the megaflow table answered.
        MEGAFLOW_HITS = "sluice_megaflow_hits_total", Counter, None;
        /// Subtables that were searched for the hits of the megaflow table.
        MASKS_VISITED = "sluice_megaflow_visited_masks_total", Counter, None;
        /// Upcalls: packets without a megaflow that were translated.
        UPCALLS = "sluice_upcalls_total", Counter, None;
        /// Upcalls that could not be answered.
        UPCALLS_LOST = "sluice_upcalls_lost_total", Counter, None;
        /// Handler threads, which answer upcalls.
        HANDLERS = "sluice_handler_threads", Gauge, None;
        /// Megaflows in the datapath.
        MEGAFLOWS = "sluice_megaflows", Gauge, None;
        /// Limit of the number of megaflows, as far as known.
        MEGAFLOWS_MAX = "sluice_megaflows_limit", Gauge, None;
        /// Estimated memory of megaflows.
        MEGAFLOW_BYTES = "sluice_megaflow_memory_bytes", Gauge, Bytes;
        /// Subtables of all ports, one for each mask.
        MASKS = "sluice_megaflow_masks", Gauge, None;
        /// Masks of the megaflows of the port that has the most; with 64, new megaflows of that port match exactly.
        PORT_MASKS = "sluice_megaflow_port_masks", Gauge, None;
        /// Whether megaflows may differ from the tables because the revalidator has not handled a change yet.
        REVALIDATOR_BEHIND = "sluice_revalidator_behind", Gauge, None;
        /// Duration of the last pass of the revalidator over all megaflows.
        REVALIDATOR_SECONDS = "sluice_revalidator_pass_seconds", Gauge, Seconds;
        /// Rx queues that were moved between poll threads.
        RXQ_MOVES = "sluice_rxq_moves_total", Counter, None;
        /// Connections that are tracked.
        CT_CONNECTIONS = "sluice_conntrack_connections", Gauge, None;
        /// Limit of the number of tracked connections.
        CT_MAX = "sluice_conntrack_connections_limit", Gauge, None;
    }
    Drop {
        /// Dropped packets by reason; the reasons are in docs/drop-reasons.md.
        DROPS = "sluice_drops_total", Counter, None;
    }
    Thread {
        /// Time that the thread spent in iterations that found packets.
        THREAD_BUSY = "sluice_thread_busy_seconds_total", Counter, Seconds;
        /// Time that the thread spent in iterations that found no packets.
        THREAD_IDLE = "sluice_thread_idle_seconds_total", Counter, Seconds;
        /// Time that the thread slept.
        THREAD_ASLEEP = "sluice_thread_sleep_seconds_total", Counter, Seconds;
        /// Cycles of iterations that found packets. Divided by the received packets, the cost of a packet.
        THREAD_BUSY_CYCLES = "sluice_thread_busy_cycles_total", Counter, Cycles;
        /// Time that the thread itself spent on upcalls.
        THREAD_UPCALL = "sluice_thread_upcall_seconds_total", Counter, Seconds;
        /// Iterations of the thread over its rx queues.
        THREAD_ITERATIONS = "sluice_thread_iterations_total", Counter, None;
        /// Iterations after which the thread slept.
        THREAD_SLEEPS = "sluice_thread_sleeps_total", Counter, None;
        /// Packets that the thread received.
        THREAD_RECEIVED = "sluice_thread_received_packets_total", Counter, None;
        /// Packets that the thread sent.
        THREAD_SENT = "sluice_thread_sent_packets_total", Counter, None;
        /// Bursts that the thread passed to devices.
        THREAD_BURSTS = "sluice_thread_output_bursts_total", Counter, None;
        /// Look-ups that the thread's flow cache answered.
        THREAD_CACHE_HITS = "sluice_thread_flow_cache_hits_total", Counter, None;
        /// Look-ups that the megaflow table answered.
        THREAD_MEGAFLOW_HITS = "sluice_thread_megaflow_hits_total", Counter, None;
        /// Look-ups that needed an upcall.
        THREAD_UPCALLS = "sluice_thread_upcalls_total", Counter, None;
        /// Packets that the thread dropped, for all reasons.
        THREAD_DROPPED = "sluice_thread_dropped_packets_total", Counter, None;
        /// Packets of the iterations whose stages were timed.
        THREAD_STAGE_PACKETS = "sluice_thread_stage_sampled_packets_total", Counter, None;
        /// Rx queues that the thread polls.
        THREAD_RXQS = "sluice_thread_rxqs", Gauge, None;
        /// Size of the thread's flow cache in entries.
        THREAD_CACHE_ENTRIES = "sluice_thread_flow_cache_entries", Gauge, None;
        /// Memory of the thread's flow cache.
        THREAD_CACHE_BYTES = "sluice_thread_flow_cache_bytes", Gauge, Bytes;
        /// NUMA node of the thread.
        THREAD_NUMA = "sluice_thread_numa_node", Gauge, None;
        /// Whether the thread polls only queues that are pinned to it.
        THREAD_ISOLATED = "sluice_thread_isolated", Gauge, None;
    }
    ThreadDrop {
        /// Packets that a poll thread dropped, by reason.
        THREAD_DROPS = "sluice_thread_drops_total", Counter, None;
    }
    Rxq {
        /// Packets received from the queue.
        RXQ_PACKETS = "sluice_rxq_packets_total", Counter, None;
        /// Polls of the queue that found packets.
        RXQ_BURSTS = "sluice_rxq_bursts_total", Counter, None;
        /// Polls of the queue that found a full burst: more packets may be waiting.
        RXQ_FULL_BURSTS = "sluice_rxq_full_bursts_total", Counter, None;
        /// Time spent on packets of the queue. The rate of this counter is the load of the queue, as a share of a core.
        RXQ_BUSY = "sluice_rxq_busy_seconds_total", Counter, Seconds;
        /// Forecast of the queue's load, as a share of a core.
        RXQ_FORECAST = "sluice_rxq_forecast_ratio", Gauge, Ratio;
        /// The core of the thread that polls the queue; -1: the thread of kernel ports, which has no core of its own.
        RXQ_CORE = "sluice_rxq_core", Gauge, None;
        /// Whether the queue is in use; a guest may use fewer queues than there are.
        RXQ_ENABLED = "sluice_rxq_enabled", Gauge, None;
    }
    RxqResidence {
        /// Upper bound of a packet's time in queue and switch: from the poll before the one that found it to the end of its processing.
        RXQ_RESIDENCE = "sluice_rxq_latency_bound_seconds", Histogram, Seconds;
    }
    Stage {
        /// Cycles of a stage of the path, in one of 1,024 iterations. Divided by the sampled packets, the cost of a packet in the stage.
        STAGE_CYCLES = "sluice_thread_stage_sampled_cycles_total", Counter, Cycles;
    }
    Bridge {
        /// OpenFlow ports of the bridge.
        BRIDGE_PORTS = "sluice_bridge_ports", Gauge, None;
        /// OpenFlow groups of the bridge.
        BRIDGE_GROUPS = "sluice_openflow_groups", Gauge, None;
        /// Entries of the bridge's MAC learning table.
        BRIDGE_MACS = "sluice_mac_table_entries", Gauge, None;
        /// Limit of the number of entries of the bridge's MAC learning table.
        BRIDGE_MACS_MAX = "sluice_mac_table_limit", Gauge, None;
        /// Multicast groups that ports of the bridge joined, with multicast snooping.
        BRIDGE_MULTICAST = "sluice_multicast_groups", Gauge, None;
        /// Limit of the number of multicast groups of the bridge.
        BRIDGE_MULTICAST_MAX = "sluice_multicast_groups_limit", Gauge, None;
        /// Open OpenFlow connections, of controllers and others.
        BRIDGE_CONNECTIONS = "sluice_openflow_connections", Gauge, None;
        /// Bytes that wait to be sent to OpenFlow connections.
        BRIDGE_UNSENT = "sluice_openflow_unsent_bytes", Gauge, Bytes;
    }
    Table {
        /// Flows in the table.
        TABLE_FLOWS = "sluice_openflow_flows", Gauge, None;
        /// Packets that matched a flow of the table.
        TABLE_MATCHED = "sluice_openflow_matched_packets_total", Counter, None;
        /// Packets that were looked up in the table and matched no flow.
        TABLE_MISSED = "sluice_openflow_missed_packets_total", Counter, None;
    }
    Controller {
        /// Whether the controller is connected.
        CONTROLLER_CONNECTED = "sluice_controller_connected", Gauge, None;
    }
    Meter {
        /// Packets that reached the meter.
        METER_PACKETS = "sluice_meter_packets_total", Counter, None;
        /// Bytes of packets that reached the meter.
        METER_BYTES = "sluice_meter_bytes_total", Counter, Bytes;
        /// Packets above the rate of a band, which dropped or marked them.
        METER_EXCEEDING = "sluice_meter_exceeding_packets_total", Counter, None;
    }
    Port {
        /// Packets that the switch received from the port.
        PORT_RX_PACKETS = "sluice_port_receive_packets_total", Counter, None;
        /// Bytes of packets that the switch received from the port.
        PORT_RX_BYTES = "sluice_port_receive_bytes_total", Counter, Bytes;
        /// Packets that the device or its policer dropped before the switch processed them.
        PORT_RX_DROPPED = "sluice_port_receive_dropped_packets_total", Counter, None;
        /// Packets that the device received with an error.
        PORT_RX_ERRORS = "sluice_port_receive_errors_total", Counter, None;
        /// Packets that the switch sent to the port.
        PORT_TX_PACKETS = "sluice_port_transmit_packets_total", Counter, None;
        /// Bytes of packets that the switch sent to the port.
        PORT_TX_BYTES = "sluice_port_transmit_bytes_total", Counter, Bytes;
        /// Packets that the device did not accept, or that a policer or shaper dropped.
        PORT_TX_DROPPED = "sluice_port_transmit_dropped_packets_total", Counter, None;
        /// Packets that the device could not send.
        PORT_TX_ERRORS = "sluice_port_transmit_errors_total", Counter, None;
        /// Whether the port is administratively up and its link is up.
        PORT_UP = "sluice_port_up", Gauge, None;
        /// Changes of the port's link.
        PORT_LINK_RESETS = "sluice_port_link_changes_total", Counter, None;
        /// MTU of the port.
        PORT_MTU = "sluice_port_mtu_bytes", Gauge, Bytes;
        /// VLAN of an access port, native VLAN of a trunk, or service VLAN; absent for other trunks.
        PORT_VLAN = "sluice_port_vlan", Gauge, None;
        /// Speed of the port's link.
        PORT_SPEED = "sluice_port_speed_bytes_per_second", Gauge, BytesPerSecond;
        /// Whether the port's BFD session is up.
        PORT_BFD_UP = "sluice_port_bfd_up", Gauge, None;
        /// Whether BFD lets packets through the port.
        PORT_BFD_FORWARDING = "sluice_port_bfd_forwarding", Gauge, None;
        /// Changes of state of the port's BFD session.
        PORT_BFD_FLAPS = "sluice_port_bfd_flaps_total", Counter, None;
        /// Whether the information of the port's LACP partner is current.
        PORT_LACP_CURRENT = "sluice_port_lacp_current", Gauge, None;
    }
    PortInfo {
        /// The type of the port, its OpenFlow number, and its OVN identifier: iface-id, or the chassis of a tunnel.
        PORT = "sluice_port_info", Info, None;
    }
    PortDrop {
        /// Packets dropped at the port by reason: of those that it received (direction receive), or should have sent (transmit).
        PORT_DROPS = "sluice_port_drops_total", Counter, None;
    }
    Bond {
        /// Links of the bond.
        BOND_LINKS = "sluice_bond_links", Gauge, None;
        /// Links of the bond that carry packets.
        BOND_ENABLED = "sluice_bond_enabled_links", Gauge, None;
    }
    Event {
        /// Events that the process counts, by the names of coverage/show; those of drops are in sluice_drops_total.
        EVENTS = "sluice_events_total", Counter, None;
    }
    Zone {
        /// Connections that are tracked in the zone. Shown are zones with a limit and the zones with the most connections.
        ZONE_CONNECTIONS = "sluice_conntrack_zone_connections", Gauge, None;
        /// Limit of the number of connections in the zone, if it has a limit of its own.
        ZONE_MAX = "sluice_conntrack_zone_connections_limit", Gauge, None;
    }
    Pool {
        /// Buffers of the pool.
        POOL_BUFFERS = "sluice_memory_pool_buffers", Gauge, None;
        /// Buffers that are in use.
        POOL_IN_USE = "sluice_memory_pool_used_buffers", Gauge, None;
    }
}
