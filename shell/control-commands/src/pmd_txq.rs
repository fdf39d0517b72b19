//! `dpif-netdev/pmd-txq-show`: which workers use which tx queues of ports. Open vSwitch has no such command, only log
//! lines.

use datapath::CONTROL_WORKER;
use datapath::steering::{TxMode, TxQueues};
use poll_threads::WorkerInfo;
use switch::Backer;
use units::{CoreId, Millis, PortNo, WorkerId};

/// The text of all ports of a datapath that have tx queues, sorted by port number.
pub(crate) fn show(backer: &Backer, now: Millis) -> String {
    let infos = backer.workers.infos();
    let text = |no: &PortNo| {
        let queues = backer.datapath.tx_queues(*no, now)?;
        Some(port_text(&backer.ports.get(no)?.name, queues, &infos))
    };
    backer.ports.keys().filter_map(text).collect()
}

/// The text of a port: its tx queues, and the workers of each queue. If the hash of a packet selects the queue, every
/// worker may use all queues, so none is listed.
fn port_text(name: &str, queues: TxQueues, infos: &[WorkerInfo]) -> String {
    let mut users = queues.users;
    if queues.mode == TxMode::Static {
        users.iter_mut().zip(infos).for_each(|(list, info)| *list = vec![info.id]);
    }
    let n = users.len();
    let mut text = format!("port: {name:<16}  tx queues: {n:2}  mode: {}\n", queues.mode.name());
    for (queue, list) in users.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
        let names: Vec<String> = list.iter().map(|id| worker_name(*id, infos)).collect();
        text += &format!("  queue-id: {queue:2}  {}\n", names.join(", "));
    }
    text
}

fn worker_name(id: WorkerId, infos: &[WorkerInfo]) -> String {
    match infos.iter().find(|p| p.id == id) {
        Some(info) if info.core != CoreId::UNPINNED => format!("pmd core_id {}", info.core.0),
        Some(_) => "main thread".to_owned(),
        None if id == CONTROL_WORKER => "control half".to_owned(),
        None => format!("worker {}", id.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: u16, core: CoreId) -> WorkerInfo {
        WorkerInfo { id: WorkerId(id), core, numa: 0, isolated: false, since: Millis(0) }
    }

    #[test]
    fn workers_of_each_queue_are_shown() {
        let infos = [info(0, CoreId::UNPINNED), info(4, CoreId(3)), info(8, CoreId(7))];
        let show = |mode, users: &[&[u16]]| {
            let users = users.iter().map(|list| list.iter().map(|w| WorkerId(*w)).collect()).collect();
            port_text("p1", TxQueues { mode, users }, &infos)
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
