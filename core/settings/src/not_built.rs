//! The list of the parts of Open vSwitch that this version does not implement.
//!
//! A setting that needs such a part names the part in its entry (`Effect::NotBuilt`). Interface types are listed here.
//! This list is the source of the `error` and `status` columns of rows, log messages, problems reported by `sluice
//! doctor`, docs/not-built.md and the row "not yet" of the README. When a part is implemented, remove it here; the
//! compiler then shows what else must be removed.

/// A part that is not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The part's name, which can be the subject of a sentence.
    pub name: &'static str,
    /// What happens instead.
    pub instead: &'static str,
    /// The interface types that need the part.
    pub kinds: &'static [&'static str],
}

const fn part(name: &'static str, instead: &'static str) -> Part {
    Part { name, instead, kinds: &[] }
}

/// Declares the parts as constants, and lists them in this order.
macro_rules! parts {
    ($($name:ident = $value:expr;)*) => {
        $(
            #[allow(missing_docs, reason = "its field `name` says it")]
            pub const $name: Part = $value;
        )*
        /// All parts.
        pub const ALL: &[Part] = &[$($name),*];
    };
}

parts! {
    TUNNELS = Part {
        kinds: &["bareudp", "lisp", "stt"],
        ..part("bareudp, LISP and STT tunnels", "the port is not created")
    };
    IPSEC = part("encryption of tunnels by IPsec", "packets are sent unencrypted");
    HW_OFFLOAD = part("hardware offload", "all packets are forwarded in software");
    REPRESENTORS = part("configuration of representors", "the function keeps its address");
}

impl Part {
    /// The sentence of [`Part::missing`], a semicolon, and what happens instead.
    pub fn why(&self) -> String {
        format!("{}; {}", self.missing(), self.instead)
    }

    /// The sentence that the part is not implemented.
    pub fn missing(&self) -> String {
        let verb = if self.name.ends_with('s') { "are" } else { "is" };
        format!("{} {verb} not built yet", self.name)
    }
}

/// The part that an interface type needs.
pub fn of_kind(kind: &str) -> Option<Part> {
    ALL.iter().find(|part| part.kinds.contains(&kind)).copied()
}
