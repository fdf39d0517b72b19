//! Neighbour discovery (RFC 4861): target and link-layer address options.

/// Fields of a neighbour solicitation or advertisement after its first eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// Target address; zero if the message is truncated or its options contradict each other.
    pub target: [u8; 16],
    /// Source link-layer address.
    pub sll: [u8; 6],
    /// Target link-layer address.
    pub tll: [u8; 6],
    /// Type of the first link-layer address option; 0: there is none.
    pub first_option: u8,
}

const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

/// Reads a message after the ICMPv6 header. A malformed option ends the list; a repeated option makes the message
/// invalid.
pub fn neighbour(data: &[u8]) -> Neighbour {
    let mut nd = Neighbour::default();
    let Some((&target, mut rest)) = data.split_first_chunk::<16>() else { return nd };
    nd.target = target;
    while let Some(&[kind, len, a, b, c, d, e, f]) = rest.first_chunk::<8>() {
        let Some(after) = rest.get(usize::from(len) * 8..).filter(|_| len != 0) else { return nd };
        let address = match kind {
            SOURCE_ADDRESS => Some(&mut nd.sll),
            TARGET_ADDRESS => Some(&mut nd.tll),
            _ => None,
        };
        if let Some(address) = address.filter(|_| len == 1) {
            if *address != [0; 6] {
                let first_option = nd.first_option;
                return Neighbour { first_option, ..Neighbour::default() };
            }
            *address = [a, b, c, d, e, f];
            if nd.first_option == 0 {
                nd.first_option = kind;
            }
        }
        rest = after;
    }
    nd
}
