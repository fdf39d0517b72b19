//! `dpif-netdev/pmd-txq-show`: which workers use which tx queues of poll-mode ports. Open vSwitch has no such command,
//! only log lines.

use datapath::OUTSIDE;
use datapath::steering::{TxMode, TxQueues};
use poll_threads::WorkerPlace;
use switch::Backer;
use units::{CoreId, Millis, PortNo, WorkerId};

/// All ports of a datapath that have a device, by number.
pub(crate) fn show(backer: &Backer, now: Millis) -> String {
    let places = backer.workers.places();
    let text = |no: &PortNo| {
        let queues = backer.datapath.tx_queues(*no, now)?;
        Some(port_text(&backer.ports.get(no)?.name, queues, &places))
    };
    backer.ports.keys().filter_map(text).collect()
}

/// A port, its queues, and the workers of each. If packets choose their queue, every worker may use all queues.
fn port_text(name: &str, queues: TxQueues, places: &[WorkerPlace]) -> String {
    let mut users = queues.users;
    if queues.mode == TxMode::Static {
        users.iter_mut().zip(places).for_each(|(list, place)| *list = vec![place.id]);
    }
    let n = users.len();
    let mut text = format!("port: {name:<16}  tx queues: {n:2}  mode: {}\n", queues.mode.name());
    for (queue, list) in users.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
        let names: Vec<String> = list.iter().map(|id| worker_name(*id, places)).collect();
        text += &format!("  queue-id: {queue:2}  {}\n", names.join(", "));
    }
    text
}

fn worker_name(id: WorkerId, places: &[WorkerPlace]) -> String {
    match places.iter().find(|p| p.id == id) {
        Some(place) if place.core != CoreId::UNPINNED => format!("pmd core_id {}", place.core.0),
        Some(_) => "main thread".to_owned(),
        None if id == OUTSIDE => "control".to_owned(),
        None => format!("worker {}", id.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u16, core: CoreId) -> WorkerPlace {
        WorkerPlace { id: WorkerId(id), core, numa: 0, isolated: false, since: Millis(0) }
    }

    #[test]
    fn workers_of_each_queue_are_shown() {
        let places = [place(0, CoreId::UNPINNED), place(4, CoreId(3)), place(8, CoreId(7))];
        let show = |mode, users: &[&[u16]]| {
            let users = users.iter().map(|list| list.iter().map(|w| WorkerId(*w)).collect()).collect();
            port_text("p1", TxQueues { mode, users }, &places)
        };
        assert_eq!(
            show(TxMode::Static, &[&[], &[], &[], &[]]),
            "port: p1                tx queues:  4  mode: static\n  queue-id:  0  main thread\n  queue-id:  1  pmd \
             core_id 3\n  queue-id:  2  pmd core_id 7\n"
        );
        assert_eq!(
            show(TxMode::Xps, &[&[4, 8], &[]]),
            "port: p1                tx queues:  2  mode: xps\n  queue-id:  0  pmd core_id 3, pmd core_id 7\n"
        );
        assert_eq!(show(TxMode::Hash, &[&[], &[]]).lines().count(), 1);
    }
}
