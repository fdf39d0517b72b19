//! Settings of `Controller`, `Manager` and `SSL`.

use super::{I32, Setting, settings};
use crate::not_built::IN_BAND;

const fn controller(name: &'static str) -> Setting {
    Setting::new("Controller", name, "")
}

const fn manager(name: &'static str) -> Setting {
    Setting::new("Manager", name, "")
}

const fn ssl(name: &'static str) -> Setting {
    Setting::new("SSL", name, "")
}

const SERVER: &str = "it is the database server that obeys";

settings! {
    TARGET = controller("target").text("ssl:, tcp:, unix:, pssl:, ptcp: or punix: and an address")
        .doc("The controller, or where controllers are waited for.");
    MAX_BACKOFF = controller("max_backoff").held(1000, I32, 8000)
        .doc("Milliseconds between two attempts to connect at most.");
    INACTIVITY_PROBE = controller("inactivity_probe").held(5000, I32, 5000)
        .doc("Milliseconds of silence after which the other end is probed; 0 is never.");
    ENABLE_ASYNC_MESSAGES = controller("enable_async_messages").flag(true)
        .doc("Whether a controller gets messages that it did not ask for.");
    CONTROLLER_QUEUE_SIZE = controller("controller_queue_size").opt_int(1, 512)
        .doc("Packet-ins that wait for a controller that reads slowly, further ones are dropped; the bridge's \
              `other_config:controller-queue-size` where it is not set.");
    CONTROLLER_RATE_LIMIT = controller("controller_rate_limit").opt_int(100, I32)
        .doc("Packet-ins per second that a controller gets at most, of misses and of actions each.");
    CONTROLLER_BURST_LIMIT = controller("controller_burst_limit").opt_int(25, I32)
        .doc("Packet-ins that may be sent at once after a pause, and that wait for their turn; a quarter of the rate \
              where it is not set.");
    PRIVATE_KEY = ssl("private_key").text("a file").doc("The switch's private key.");
    CERTIFICATE = ssl("certificate").text("a file").doc("Its certificate.");
    CA_CERT = ssl("ca_cert").text("a file").doc("The CA that others must have theirs from.");
    BOOTSTRAP_CA_CERT = ssl("bootstrap_ca_cert").flag(false).doc("Takes the CA from the first connection.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    controller("type")
        .choice(&["primary", "service"], "")
        .none("a target's form says it")
        .doc("What it is for."),
    controller("connection_mode")
        .choice(&["in-band", "out-of-band"], "out-of-band")
        .asks_for(IN_BAND)
        .doc("Whether it is reached through the bridge itself."),
    controller("local_ip").text("an IPv4 address").detail_of(IN_BAND).doc("The own address in-band."),
    controller("local_netmask").text("an IPv4 mask").detail_of(IN_BAND).doc("Its mask."),
    controller("local_gateway").text("an IPv4 address").detail_of(IN_BAND).doc("The gateway in-band."),
    Setting::new("Controller", "other_config", "dscp")
        .int(0, 63, 48)
        .none("connections have the host's default")
        .doc("The DSCP of the connection."),
    manager("target").text("a target").partly(SERVER).doc("A remote of the database server."),
    manager("connection_mode")
        .choice(&["in-band", "out-of-band"], "out-of-band")
        .detail_of(IN_BAND)
        .doc("How it is reached."),
    manager("max_backoff")
        .held(1000, I32, 8000)
        .partly(SERVER)
        .doc("Milliseconds between two attempts at most."),
    manager("inactivity_probe")
        .held(0, I32, 5000)
        .partly(SERVER)
        .doc("Milliseconds of silence before a probe."),
    Setting::new("Manager", "other_config", "dscp")
        .int(0, 63, 48)
        .none("connections have the host's default")
        .doc("The DSCP of the connection."),
];
