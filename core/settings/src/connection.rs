//! Settings of `Controller`, `Manager` and `SSL`.

use crate::setting::{I32_MAX, Setting, settings};

const fn controller(name: &'static str) -> Setting {
    Setting::new("Controller", name, "")
}

const fn manager(name: &'static str) -> Setting {
    Setting::new("Manager", name, "")
}

const fn ssl(name: &'static str) -> Setting {
    Setting::new("SSL", name, "")
}

const SERVER: &str = "used by the database server only";

settings! {
    TARGET = controller("target").text("ssl:, tcp:, unix:, pssl:, ptcp: or punix: and an address")
        .doc("The controller to connect to, or the address to listen on.");
    MAX_BACKOFF = controller("max_backoff").clamped(1000, I32_MAX, 8000)
        .doc("Maximum milliseconds between two connection attempts.");
    INACTIVITY_PROBE = controller("inactivity_probe").clamped(5000, I32_MAX, 5000)
        // Only this range is declared; `core/config/src/controller.rs` handles 0.
        .doc("Milliseconds without a message after which the connection is probed; 1 to 4999 count as 5000, 0 means never.");
    ENABLE_ASYNC_MESSAGES = controller("enable_async_messages").flag(true)
        .doc("Whether a controller gets asynchronous messages before it configures them.");
    CONTROLLER_QUEUE_SIZE = controller("controller_queue_size").opt_int(1, 512)
        .doc("Maximum number of packet-ins queued for a controller that reads slowly, further ones are dropped; if not \
              set, the bridge's `other_config:controller-queue-size`.");
    CONTROLLER_RATE_LIMIT = controller("controller_rate_limit").opt_int(100, I32_MAX)
        .doc("Maximum packet-ins per second sent to a controller; misses and actions are limited separately.");
    CONTROLLER_BURST_LIMIT = controller("controller_burst_limit").opt_int(25, I32_MAX)
        .doc("How many packet-ins may exceed the rate in a burst, and how many wait when the rate is exceeded; if not \
              set, a quarter of the rate.");
    CONNECTION_MODE = controller("connection_mode").choice(&["in-band", "out-of-band"], "in-band")
        .doc("Whether the controller is reached through the bridge itself: hidden flows let the connection pass (IPv4).");
    MANAGER_CONNECTION_MODE = manager("connection_mode").choice(&["in-band", "out-of-band"], "in-band")
        .doc("Whether the manager is reached through bridges: hidden flows let the connection pass (IPv4), except to the host itself.");
    PRIVATE_KEY = ssl("private_key").text("a file").doc("The switch's private key.");
    CERTIFICATE = ssl("certificate").text("a file").doc("The switch's certificate.");
    CA_CERT = ssl("ca_cert").text("a file").doc("The CA certificate that peers' certificates are checked against.");
    BOOTSTRAP_CA_CERT = ssl("bootstrap_ca_cert").flag(false).doc("Accepts the CA certificate of the first connection and stores it.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    controller("type")
        .choice(&["primary", "service"], "")
        .without_effect("the form of the target determines it")
        .doc("Purpose of the controller."),
    controller("local_ip")
        .text("an IPv4 address")
        .without_effect("the host's own tools set the address of the bridge's device")
        .doc("The switch's own address for in-band control."),
    controller("local_netmask")
        .text("an IPv4 mask")
        .without_effect("the host's own tools set the address of the bridge's device")
        .doc("The mask of the switch's own address for in-band control."),
    controller("local_gateway")
        .text("an IPv4 address")
        .without_effect("the host's own tools set the routes")
        .doc("The gateway for in-band control."),
    Setting::new("Controller", "other_config", "dscp")
        .int(0, 63, 48)
        .without_effect("connections use the host's default")
        .doc("The DSCP of the connection."),
    manager("target").text("a target").partly_effective(SERVER).doc("A remote of the database server."),
    manager("max_backoff")
        .clamped(1000, I32_MAX, 8000)
        .partly_effective(SERVER)
        .doc("Maximum milliseconds between two connection attempts."),
    manager("inactivity_probe")
        .clamped(0, I32_MAX, 5000)
        .partly_effective(SERVER)
        .doc("Milliseconds without a message after which the connection is probed."),
    Setting::new("Manager", "other_config", "dscp")
        .int(0, 63, 48)
        .without_effect("connections use the host's default")
        .doc("The DSCP of the connection."),
];
