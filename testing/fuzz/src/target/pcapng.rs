//! Captures, as `sluice capture` and `sluice why` read them from a daemon.

use pcapng::{Block, BlockSplitter};

/// Parses bytes that arrive in pieces of this length. Returns the blocks, and whether an error ended them. The kind of error may
/// depend on the length of the pieces, so it is not compared.
fn read(data: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut blocks, mut found) = (BlockSplitter::default(), Vec::new());
    for part in data.chunks(piece) {
        blocks.push(part);
        loop {
            match blocks.next_block() {
                Ok(Some((bytes, block))) => {
                    if let Block::Packet(packet) = block {
                        assert!(packet.bytes.len() + packet.comment.len() <= bytes.len());
                    }
                    found.push(bytes.to_vec());
                }
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    assert_eq!(found.iter().map(Vec::len).sum::<usize>() + blocks.left(), data.len());
    (found, false)
}

pub fn run(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    for piece in [1, 7] {
        assert_eq!(read(data, piece), whole);
    }
    assert!(data.starts_with(&whole.0.concat()));
}
