//! A PMD thread in virtual time: packets arrive at a rate, sleeps end late and cost CPU time.

use super::*;

/// In these tests a cycle is a nanosecond.
const US: u64 = 1000;
const EMPTY_TURN: u64 = 200;
const PACKET: u64 = 100;

/// The sleep behaviour of a machine.
#[derive(Clone, Copy)]
struct Machine {
    /// Mean wake-up delay; each delay is between half of this and one and a half times this.
    wakeup_delay: u64,
    /// CPU time of one sleep.
    cost: u64,
    can_arm: bool,
    can_pause: bool,
}

const QUICK: Machine = Machine { wakeup_delay: 8 * US, cost: US, can_arm: false, can_pause: false };

struct RunResult {
    /// CPU use in percent.
    used: u64,
    p99: u64,
    timers: u64,
    armed: u64,
    pauses: u64,
}

/// Runs the thread for `time`, while every `gap` a group of `group` packets arrives.
fn run(target: u64, machine: Machine, gap: u64, group: u64, time: u64) -> RunResult {
    run_with(target, machine, group, time, |_| gap)
}

/// The same for gaps of any length. `gap` gets a random number below 2^31.
fn run_with(
    target: u64,
    machine: Machine,
    group: u64,
    time: u64,
    mut gap: impl FnMut(u64) -> u64,
) -> RunResult {
    let mut idle = LatencySleep::default();
    idle.set_target(target, US, machine.can_pause);
    idle.set_can_arm(machine.can_arm);
    let mut random = fastrand::Rng::with_seed(1);
    let mut draw = || random.u64(..1 << 31);
    let (mut now, mut used, mut next) = (0, 0, gap(draw()));
    let mut waits = Vec::new();
    let mut seen = RunResult { used: 0, p99: 0, timers: 0, armed: 0, pauses: 0 };
    while now < time {
        let (mut packets, start) = (0, now);
        while next <= start && packets + group <= 32 {
            packets += group;
            waits.push(start - next);
            next += gap(draw()) * group;
        }
        let turn = EMPTY_TURN + packets * PACKET;
        now += turn;
        used += turn;
        let delay = machine.wakeup_delay / 2 + draw() % machine.wakeup_delay.max(1);
        match idle.after_iteration(Cycles(now), packets) {
            IdleAction::Poll => {}
            IdleAction::Pause(time) => {
                now += time;
                seen.pauses += 1;
            }
            IdleAction::Timer(asked) => {
                now += asked + delay;
                used += machine.cost;
                idle.add_cost(machine.cost);
                idle.slept(Cycles(now), asked, asked + delay);
                seen.timers += 1;
            }
            IdleAction::UntilDeviceEvent(most) => {
                let by_device = next.saturating_sub(now) <= most;
                let asleep = if by_device { next.saturating_sub(now) } else { most } + delay;
                now += asleep;
                used += machine.cost;
                seen.armed += 1;
                if !by_device {
                    idle.slept(Cycles(now), most, asleep);
                }
            }
        }
    }
    waits.sort_unstable();
    seen.used = 100 * used / now;
    seen.p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
    seen
}

#[test]
fn no_target_no_sleep() {
    let seen = run(0, QUICK, 1000 * US, 1, 100_000 * US);
    assert_eq!((seen.used, seen.timers, seen.armed), (100, 0, 0));
}

#[test]
fn every_rate_meets_the_target_and_low_rates_cost_little() {
    for (gap, most) in [(1000 * US, 4), (100 * US, 4), (10 * US, 8), (US, 100)] {
        for target in [50, 100] {
            let seen = run(target, QUICK, gap, 1, 200_000 * US);
            assert!(seen.p99 <= target * US, "{gap} {target}: p99 {}", seen.p99);
            assert!(seen.used <= most, "{gap} {target}: used {}", seen.used);
            assert_eq!(seen.armed, 0);
        }
    }
}

#[test]
fn armed_devices_replace_timer_sleeps() {
    let machine = Machine { can_arm: true, ..QUICK };
    let idle = run(100, machine, u64::MAX / 2, 1, 200_000 * US);
    assert!(idle.used == 0 && idle.timers < 20, "{}", idle.timers);
    let slow = run(100, machine, 1000 * US, 1, 200_000 * US);
    assert!(slow.armed > 180 && slow.p99 <= 100 * US && slow.used <= 1, "{} {}", slow.armed, slow.p99);
    // Several packets arrive within the target, so the thread would wake for each of them.
    let fast = run(100, machine, 10 * US, 1, 200_000 * US);
    assert!(fast.timers > 1000 && fast.armed < fast.timers / 100);
}

/// A machine that wakes its threads later than the target allows.
const SLOW_TO_WAKE: Machine =
    Machine { wakeup_delay: 50 * US, cost: 20 * US, can_arm: true, can_pause: false };

#[test]
fn periodic_packets_are_polled_for() {
    for (target, gap) in [(50, 1000), (30, 2500), (50, 10_000)] {
        let seen = run(target, SLOW_TO_WAKE, gap * US, 1, 20_000_000 * US);
        assert!(seen.p99 <= target * US && seen.used <= 10, "{gap}: p99 {} used {}", seen.p99, seen.used);
    }
    // A sender with 10 µs of jitter, and one that is descheduled before one packet in ten.
    let jittering = run_with(50, SLOW_TO_WAKE, 1, 20_000_000 * US, |random| 995 * US + random % (10 * US));
    assert!(
        jittering.p99 <= 50 * US && jittering.used <= 10,
        "p99 {} used {}",
        jittering.p99,
        jittering.used
    );
    let descheduled = run_with(50, SLOW_TO_WAKE, 1, 20_000_000 * US, |random| {
        1000 * US + if random % 100 < 10 { random % 160 * US } else { 0 }
    });
    assert!(
        descheduled.p99 <= 75 * US && descheduled.used <= 10,
        "p99 {} used {}",
        descheduled.p99,
        descheduled.used
    );
}

#[test]
fn poisson_arrivals_are_not_polled_for() {
    // The gaps have an exponential distribution, so the arrivals are a Poisson process.
    let seen = run_with(50, SLOW_TO_WAKE, 1, 20_000_000 * US, |random| {
        (-((random + 1) as f64 / (1u64 << 31) as f64).ln() * (1000 * US) as f64) as u64
    });
    assert!(seen.used <= 3 && seen.p99 <= 75 * US, "used {} p99 {}", seen.used, seen.p99);
    // If events arrive within the target, waiting for them is cheaper.
    let seen = run(300, SLOW_TO_WAKE, 1000 * US, 1, 20_000_000 * US);
    assert!(seen.used <= 2, "used {}", seen.used);
}

#[test]
fn a_new_period_is_learned() {
    let mut packets = 0;
    let seen = run_with(50, SLOW_TO_WAKE, 1, 40_000_000 * US, |_| {
        packets += 1;
        if packets / 1000 % 2 == 0 { 1000 * US } else { 3000 * US }
    });
    assert!(seen.p99 <= 60 * US && seen.used <= 10, "p99 {} used {}", seen.p99, seen.used);
}

#[test]
fn high_rates_sleep_up_to_the_target_too() {
    // Sleeps are expensive and end late. The packets that arrived during a sleep must not count as a burst.
    let slow = Machine { wakeup_delay: 25 * US, cost: 22 * US, ..QUICK };
    let seen = run(100, slow, US, 1, 500_000 * US);
    assert!(seen.p99 <= 100 * US && seen.used <= 55, "p99 {} used {}", seen.p99, seen.used);
}

#[test]
fn a_sleep_that_costs_more_than_it_saves_is_skipped() {
    let dear = Machine { wakeup_delay: 4 * US, cost: 60 * US, ..QUICK };
    let seen = run(100, dear, 10 * US, 1, 2_000_000 * US);
    // One probe every 2 ms.
    assert!(seen.timers < 1200, "{}", seen.timers);
    assert!(seen.p99 <= 2 * US, "{}", seen.p99);
    // A million packets a second on a machine whose sleeps are slow.
    let slow = Machine { wakeup_delay: 40 * US, cost: 20 * US, ..QUICK };
    let seen = run(50, slow, US, 1, 200_000 * US);
    assert!(seen.timers * 100 * US < 200_000 * US, "{}", seen.timers);
}

#[test]
fn a_machine_that_wakes_too_late_is_probed_rarely() {
    let busy = Machine { wakeup_delay: 300 * US, cost: 2 * US, ..QUICK };
    let seen = run(100, busy, 20 * US, 1, 2_000_000 * US);
    // One probe every 60 ms, plus the sleeps by which the delay was measured.
    assert!(seen.timers < 200, "{}", seen.timers);
}

#[test]
fn a_machine_that_becomes_quiet_sleeps_again_soon() {
    let mut idle = LatencySleep::default();
    idle.set_target(100, US, false);
    idle.set_can_arm(false);
    // Wake-ups are 10 ms late for three seconds, then 20 µs.
    let (mut now, mut again) = (0, None);
    let noisy = 3_000_000 * US;
    while again.is_none() && now < 20 * noisy {
        now += EMPTY_TURN;
        let delay = if now < noisy { 10_000 * US } else { 20 * US };
        if let IdleAction::Timer(asked) = idle.after_iteration(Cycles(now), 0) {
            now += asked + delay;
            idle.slept(Cycles(now), asked, asked + delay);
            again = (now > noisy + 100_000 * US && asked > 50 * US).then(|| now - noisy);
        }
    }
    assert!(again.is_some_and(|after| after < 20_000_000 * US), "{again:?}");
}

#[test]
fn short_waits_use_the_cpu_pause() {
    let machine = Machine { wakeup_delay: 40 * US, cost: 20 * US, can_pause: true, ..QUICK };
    let seen = run(20, machine, US / 2, 1, 100_000 * US);
    assert!(seen.pauses > 1000 && seen.p99 <= 20 * US, "{} {}", seen.pauses, seen.p99);
}

#[test]
fn a_burst_is_followed_by_polling() {
    let mut idle = LatencySleep::default();
    idle.set_target(100, US, false);
    idle.set_can_arm(false);
    assert!(matches!(idle.after_iteration(Cycles(1_000_000), 0), IdleAction::Timer(_)));
    for turn in 0..100 {
        assert_eq!(idle.after_iteration(Cycles(1_000_000 + turn * 3400), 32), IdleAction::Poll);
    }
    // The gap is that of single packets now: an empty iteration between two bursts does not cause a sleep.
    assert_eq!(idle.after_iteration(Cycles(1_000_000 + 99 * 3400 + 200), 0), IdleAction::Poll);
}

#[test]
fn stolen_time_does_not_count_as_sleep_cost() {
    let mut idle = LatencySleep::default();
    idle.set_target(200, US, false);
    for i in 0..200 {
        idle.add_cost(if i % 10 == 9 { 1000 * US } else { 40 * US });
    }
    assert!((36 * US..60 * US).contains(&idle.cost), "{}", idle.cost / US);
}
