//! Random groups as text.

use crate::bounds::TABLES;
use crate::change::change;
use crate::kind::Kind;
use crate::pools::port;
use crate::rng::Rng;

/// Returns a line that adds group `id` with random buckets.
pub fn group(rng: &mut Rng, id: u64) -> String {
    let kind = rng.pick(&["all", "all", "all", "indirect", "select", "ff"]);
    let mut line = format!("group add group_id={id},type={kind}");
    if kind == "select" {
        // Without a method, the datapaths compute the hash, with different functions.
        line.push_str(rng.pick(&[
            ",selection_method=hash,fields(ip_src)",
            ",selection_method=hash,fields(eth_src,eth_dst)",
            ",selection_method=hash,fields=eth_dst",
        ]));
    }
    for _ in 0..if kind == "indirect" { 1 } else { rng.between(1, 3) } {
        let mut bucket = vec![change(rng, Kind::Any), format!("output:{}", port(rng))];
        if rng.chance(30) {
            bucket[1] = format!("resubmit(,{})", TABLES - 1);
        }
        if id > 1 && rng.chance(10) {
            bucket[1] = format!("group:{}", id - 1);
        }
        if rng.chance(30) {
            bucket.remove(0);
        }
        let properties = match kind {
            "select" => format!("weight:{},", rng.pick(&[0, 1, 10, 100])),
            "ff" => format!("watch_port:{},", rng.between(1, 6)),
            _ => String::new(),
        };
        line.push_str(&format!(",bucket={properties}actions={}", bucket.join(",")));
    }
    line
}
