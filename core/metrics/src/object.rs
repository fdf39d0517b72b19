//! The kinds of objects that metrics describe.

/// The name of a label.
pub type Label = &'static str;

/// A row: `Variant = [labels], limit`, with the plural of its name as documentation.
macro_rules! objects {
    ($(#[doc = $plural:literal] $variant:ident = [$($label:literal),*], $limit:literal;)*) => {
        /// A kind of object. Its labels identify an object.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Object { $(#[doc = $plural] $variant,)* }

        impl Object {
            /// All kinds of objects.
            pub const ALL: &'static [Object] = &[$(Object::$variant,)*];

            /// The names of the labels.
            pub const fn labels(self) -> &'static [Label] {
                match self { $(Object::$variant => &[$($label),*],)* }
            }

            /// Maximum number of objects of this kind that are shown.
            pub const fn limit(self) -> usize {
                match self { $(Object::$variant => $limit,)* }
            }

            /// The plural of the kind's name.
            pub const fn plural(self) -> &'static str {
                match self { $(Object::$variant => $plural.trim_ascii(),)* }
            }
        }
    };
}

objects! {
    /// the process
    Process = [], 1;
    /// the build
    Build = ["version", "compatible_with"], 1;
    /// kinds of objects left out
    Omitted = ["object"], 64;
    /// answers of the metrics server
    Answer = ["code"], 32;
    /// datapaths
    Datapath = ["datapath"], 64;
    /// drop reasons
    Drop = ["datapath", "reason"], 4096;
    /// poll threads
    Thread = ["datapath", "thread"], 1024;
    /// drop reasons of poll threads
    ThreadDrop = ["datapath", "thread", "reason"], 8192;
    /// rx queues
    Rxq = ["datapath", "port", "queue"], 2048;
    /// rx queues of poll threads with packets
    RxqResidence = ["datapath", "port", "queue"], 512;
    /// stages of poll threads
    Stage = ["datapath", "thread", "stage"], 1024;
    /// bridges
    Bridge = ["bridge"], 4096;
    /// OpenFlow tables with flows
    Table = ["bridge", "table"], 4096;
    /// controllers
    Controller = ["bridge", "controller"], 4096;
    /// meters
    Meter = ["bridge", "meter"], 4096;
    /// ports
    Port = ["bridge", "port"], 16384;
    /// ports with their type
    PortInfo = ["bridge", "port", "type", "ofport", "logical_port"], 16384;
    /// drop reasons of ports
    PortDrop = ["datapath", "port", "direction", "reason"], 16384;
    /// bonds
    Bond = ["bridge", "bond"], 1024;
    /// events of coverage/show
    Event = ["event"], 256;
    /// zones of connection tracking
    Zone = ["datapath", "zone"], 1024;
    /// memory pools of DPDK
    Pool = ["pool"], 256;
}
