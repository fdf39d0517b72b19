//! `rxpool/show`: the pools of receive buffers, and how many buffers each queue holds. Sluice's own command.

use netdev::rx_buffers::QueueUse;
use netdev::shared_rx::{SharedRxConfig, Usage};
use openflow_service::Backing;
use ovsdb::Json;
use serde_json::json;
use std::collections::BTreeMap;
use switch::{Backer, Switch};
use units::PortNo;
use unixctl::{Format, Reply};

/// A queue of a port.
struct Line {
    port: String,
    queue: usize,
    usage: QueueUse,
}

pub(crate) fn show(switch: &Switch, format: Format) -> Reply {
    let (pools, shared) = (by_pool(switch), shared(switch));
    match format {
        Format::Text if pools.is_empty() && shared.is_empty() => {
            Reply::Text("No port has rx-pool=basic or rx-pool=spp.\n".into())
        }
        Format::Text => {
            let pools = pools.iter().map(|(name, lines)| text(name, lines));
            Reply::Text(pools.chain(shared.iter().map(SharedQueues::text)).collect())
        }
        Format::Json => {
            let pools = pools.iter().map(|(name, lines)| (name.clone(), object(lines)));
            Reply::Json(pools.chain(shared.iter().map(|s| (s.name.clone(), s.object()))).collect())
        }
    }
}

/// The rx queues that the ports of a datapath share.
struct SharedQueues {
    name: String,
    config: SharedRxConfig,
    ports: Vec<String>,
    queues: Vec<Usage>,
}

/// The shared rx queues of each datapath that has any.
fn shared(switch: &Switch) -> Vec<SharedQueues> {
    let of = |backer: &Backer| {
        let name = |number: PortNo| Some(backer.ports.get(&number)?.name.clone());
        let mut ports: Vec<String> = backer.shared_rx.members().filter_map(name).collect();
        ports.sort_unstable();
        SharedQueues {
            name: format!("basic.{}", backer.datapath_type),
            config: backer.shared_rx.config(),
            ports,
            queues: backer.shared_rx.usage(),
        }
    };
    switch.datapaths.all().map(of).filter(|shared| !shared.ports.is_empty()).collect()
}

impl SharedQueues {
    fn text(&self) -> String {
        let SharedQueues { name, config, ports, queues } = self;
        let (n, hash) = (queues.len(), config.hash());
        let mut out = format!("pool {name}: {n} queues by {hash}, {} ports\n", ports.len());
        out += "  queue      packets       lost waiting\n";
        for (i, Usage { packets, lost, waiting }) in queues.iter().enumerate() {
            out += &format!("  {i:>5} {packets:>12} {lost:>10} {waiting:>7}\n");
        }
        out + "  ports: " + &ports.join(", ") + "\n"
    }

    fn object(&self) -> Json {
        let queue = |u: &Usage| json!({"packets": u.packets, "lost": u.lost, "waiting": u.waiting});
        let queues: Vec<Json> = self.queues.iter().map(queue).collect();
        json!({ "hash": self.config.hash(), "ports": self.ports, "queues": queues })
    }
}

/// The rx queues by the name of their pool, sorted by port.
fn by_pool(switch: &Switch) -> BTreeMap<String, Vec<Line>> {
    let mut pools: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for port in switch.bridges.values().flat_map(|bridge| bridge.ports.values()) {
        let Backing::Device { netdev, .. } = &port.backing else { continue };
        for (queue, usage) in netdev.rx_buffer_usage().into_iter().enumerate() {
            let line = Line { port: port.name.clone(), queue, usage };
            pools.entry(line.usage.pool.clone()).or_default().push(line);
        }
    }
    pools.values_mut().for_each(|lines| lines.sort_by(|a, b| (&a.port, a.queue).cmp(&(&b.port, b.queue))));
    pools
}

/// The number of buffers of a pool, and how many of them are held.
fn of_pool(lines: &[Line]) -> (u32, u32) {
    lines.first().map_or((0, 0), |line| line.usage.of_pool)
}

fn text(name: &str, lines: &[Line]) -> String {
    let (buffers, held) = of_pool(lines);
    let mut out = format!("pool {name}: {buffers} buffers, {held} held\n");
    out += "  port             queue   held posted sending allowance reserve   high   peak state became-busy       lost  first-burst\n";
    for Line { port, queue, usage: u } in lines {
        let state = if u.busy { "busy" } else { "idle" };
        out += &format!(
            "  {port:<16} {queue:>5} {:>6} {:>6} {:>7} {:>9} {:>7} {:>6} {:>6} {state:<5} {:>11} {:>10} {:>12}\n",
            u.held,
            u.posted,
            u.sending,
            u.allowance,
            u.reserve,
            u.high,
            u.peak,
            u.became_busy,
            u.lost,
            u.first_burst_lost
        );
    }
    out
}

fn object(lines: &[Line]) -> Json {
    let (buffers, held) = of_pool(lines);
    let queues: Vec<Json> = lines
        .iter()
        .map(|Line { port, queue, usage: u }| {
            json!({
                "port": port, "queue": queue, "held": u.held, "posted": u.posted, "sending": u.sending,
                "allowance": u.allowance, "reserve": u.reserve, "high": u.high, "peak": u.peak,
                "busy": u.busy, "became-busy": u.became_busy, "lost": u.lost, "first-burst-lost": u.first_burst_lost,
            })
        })
        .collect();
    json!({ "buffers": buffers, "held": held, "queues": queues })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let usage = QueueUse {
            pool: "0.0".into(),
            of_pool: (4096, 300),
            held: 172,
            posted: 128,
            allowance: 1000,
            reserve: 128,
            high: 2048,
            peak: 900,
            busy: true,
            became_busy: 3,
            first_burst_lost: 12,
            lost: 40,
            ..QueueUse::default()
        };
        let lines = [Line { port: "p1".into(), queue: 0, usage }];
        let shown = text("0.0", &lines);
        let rows: Vec<&str> = shown.lines().collect();
        assert_eq!(rows[0], "pool 0.0: 4096 buffers, 300 held");
        for (title, value) in
            [("held", "172"), ("posted", "128"), ("peak", "900"), ("lost", "40"), ("first-burst", "12")]
        {
            let end = rows[1].find(title).map(|at| at + title.len()).unwrap();
            assert!(rows[2][..end].ends_with(value), "{title}: {shown}");
        }
        assert_eq!(object(&lines)["queues"][0]["first-burst-lost"], 12);
    }
}
