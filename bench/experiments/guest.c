/* A measuring guest: sends on its first port at a rate, and receives the packets on its second port, on one core.
 *
 *   guest EAL-ARGUMENTS -- pace PPS SECONDS             PPS packets per second; 0: as fast as the switch takes them
 *   guest EAL-ARGUMENTS -- step COUNT PPS QUIET-MS STEPS    silence, then COUNT packets at this rate, repeatedly
 *   guest EAL-ARGUMENTS -- storm FLOWS                  like `pace`, with FLOWS flows, for each line of standard input:
 *                                                       PPS SECONDS KIND PPS; the latter: rate of an attack on the third port
 *   guest EAL-ARGUMENTS -- chain LENGTH GUESTS          the third and the fourth port, and so on, are pairs of ports of guests
 *                                                       that send what they receive on the first of them on the second; for each
 *                                                       line of standard input, PPS SECONDS: frames of LENGTH bytes at this rate
 *
 * In an attack of kind `flows` each packet is a new flow. In one of kind `masks` the packets differ from the rules of an
 * access list (10.0.0.10, port 12345, port 80) at different bits of different fields: each combination needs a mask.
 *
 * Each packet contains the time when it was sent. Standard output: "ready" when all ports are up; "begin" when counting
 * begins after a warm-up of one second (with `storm` once, before the first line); at the end, or after each line, a line
 * of JSON: packets sent, refused (the ring was full; a network card would drop them) and received, those that a guest of
 * a chain could not send, latencies in microseconds, and the number of packets in each of the article's bins.
 *
 * The machine preempts this thread at times. Such a pause is not the switch's fault: packets that were not sent during a
 * pause are skipped (otherwise they would be a burst), and packets that were on their way have no latency, since they
 * waited for the guest. `paused` is the sum of pauses in seconds, `without_latency` the number of those packets.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define BURST 32
#define RING 2048
/* Shortest and longest frame, without the checksum of Ethernet. */
#define LENGTH 60
#define LENGTH_MAX 1514
/* Latencies are counted in units of 1/16 microsecond, up to this limit. */
#define CELLS (16 * 200000)
#define STAMP 42
/* A longer turn, in microseconds, was a pause: sending and receiving a burst takes less than five. Each guest of a chain may add
 * as much. */
#define PAUSE 25
/* Seconds during which the last packets may still arrive. */
#define SETTLE 0.02

static uint32_t cells[CELLS];
static uint16_t length = LENGTH;
static unsigned guests;
static uint64_t sent, refused, received, guest_refused, without_latency, attacked, attack_refused, paused, awake_since, hz;
static unsigned flows = 1;
static double attack_pps;
static int by_masks;
static struct rte_mempool *pool;

/* Ethernet, IPv4 from 10.0.0.1 to 20.0.0.0, UDP; the checksum of the IP header is valid. */
static uint8_t head[STAMP] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
    0x45, 0, 0, LENGTH - 14, 0, 0, 0x40, 0, 64, 17, 0x18, 0xbd, 10, 0, 0, 1, 20, 0, 0, 0,
    4, 0, 18, 180, 0, LENGTH - 34, 0, 0,
};

static void die(const char *what)
{
    fprintf(stderr, "guest: %s\n", what);
    exit(1);
}

static void start(uint16_t port)
{
    struct rte_eth_conf conf = {0};
    if (rte_eth_dev_configure(port, 1, 1, &conf) || rte_eth_rx_queue_setup(port, 0, RING, SOCKET_ID_ANY, NULL, pool) ||
        rte_eth_tx_queue_setup(port, 0, RING, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(port))
        die("a port does not start");
    struct rte_eth_link link = {0};
    for (int i = 0; i < 1000 && !link.link_status; i++) {
        rte_eth_link_get_nowait(port, &link);
        rte_delay_us_sleep(20000);
    }
    if (!link.link_status)
        die("no switch came");
}

static void put16(uint8_t *at, uint16_t value)
{
    at[0] = value >> 8;
    at[1] = value & 255;
}

/* Frames have this length from now on. */
static void set_length(uint16_t new)
{
    const uint8_t *sum = head + 24;
    uint32_t more = new - length, complement = (uint16_t) ~(sum[0] << 8 | sum[1]) + more;
    length = new;
    put16(head + 16, length - 14);
    put16(head + 24, ~((complement & 0xffff) + (complement >> 16)));
    put16(head + 38, length - 34);
}

static uint32_t chance(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

/* Returns `value` with a random one of its `bits` lowest bits inverted, and random bits below that bit. */
static uint32_t differ(uint32_t value, unsigned bits)
{
    unsigned bit = chance() % bits;
    return value ^ (1u << bit) ^ (chance() & ((1u << bit) - 1));
}

/* Packets of the attack. The checksum of the IP header is wrong, because the switch does not check it. */
static void send_attack(unsigned n)
{
    static uint32_t next;
    struct rte_mbuf *packets[BURST];
    if (rte_pktmbuf_alloc_bulk(pool, packets, n))
        return;
    for (unsigned i = 0; i < n; i++, next++) {
        uint8_t *bytes = rte_pktmbuf_mtod(packets[i], uint8_t *);
        uint32_t from = by_masks ? differ(10 << 24 | 10, 32) : 11u << 24 | (next & 0xffffff);
        memcpy(bytes, head, STAMP);
        memset(bytes + STAMP, 0, LENGTH - STAMP);
        put16(bytes + 26, from >> 16);
        put16(bytes + 28, from);
        put16(bytes + 34, by_masks ? differ(12345, 16) : 1024 + (next >> 24));
        if (by_masks)
            put16(bytes + 36, differ(80, 16));
        packets[i]->data_len = packets[i]->pkt_len = LENGTH;
    }
    unsigned taken = rte_eth_tx_burst(2, 0, packets, n);
    attacked += taken;
    attack_refused += n - taken;
    rte_pktmbuf_free_bulk(packets + taken, n - taken);
}

/* Offers n packets, at most BURST; packets that do not fit into the ring count as refused. */
static void offer(unsigned n)
{
    static unsigned flow;
    struct rte_mbuf *packets[BURST];
    if (rte_pktmbuf_alloc_bulk(pool, packets, n)) {
        refused += n;
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        uint8_t *bytes = rte_pktmbuf_mtod(packets[i], uint8_t *);
        uint64_t now = rte_rdtsc();
        memcpy(bytes, head, STAMP);
        memcpy(bytes + STAMP, &now, sizeof now);
        if (flows > 1) {
            flow = flow + 1 < flows ? flow + 1 : 0;
            put16(bytes + 34, 1024 + flow);
        }
        packets[i]->data_len = packets[i]->pkt_len = length;
    }
    unsigned taken = rte_eth_tx_burst(0, 0, packets, n);
    sent += taken;
    refused += n - taken;
    rte_pktmbuf_free_bulk(packets + taken, n - taken);
}

static void receive(void)
{
    struct rte_mbuf *packets[BURST];
    unsigned n = rte_eth_rx_burst(1, 0, packets, BURST);
    uint64_t now = rte_rdtsc();
    for (unsigned i = 0; i < n; i++) {
        uint8_t *bytes = rte_pktmbuf_mtod(packets[i], uint8_t *);
        uint64_t then;
        if (packets[i]->data_len != length || memcmp(bytes, head, 12))
            continue;
        memcpy(&then, bytes + STAMP, sizeof then);
        received++;
        if (then < awake_since) {
            without_latency++;
            continue;
        }
        uint64_t cell = (uint64_t)((double)(now - then) * 16e6 / hz);
        cells[cell < CELLS ? cell : CELLS - 1]++;
    }
    rte_pktmbuf_free_bulk(packets, n);
}

/* Discards packets of the attack that return. */
static void drain(void)
{
    struct rte_mbuf *packets[BURST];
    rte_pktmbuf_free_bulk(packets, rte_eth_rx_burst(2, 0, packets, BURST));
}

/* What the guests of a chain do: each sends on its second port what it receives on its first. */
static void forward(void)
{
    struct rte_mbuf *packets[BURST];
    for (unsigned port = 2; port < 2 + 2 * guests; port += 2) {
        unsigned n = rte_eth_rx_burst(port, 0, packets, BURST), taken = rte_eth_tx_burst(port + 1, 0, packets, n);
        guest_refused += n - taken;
        rte_pktmbuf_free_bulk(packets + taken, n - taken);
    }
}

/* The duration of a turn from `last` to `now`; 0 if it contained a pause. */
static double turn(uint64_t last, uint64_t now)
{
    if (now - last <= PAUSE * (1 + guests) * hz / 1000000)
        return now - last;
    paused += now - last;
    awake_since = now;
    return 0;
}

/* Sends at a rate until `end` or until `count` packets have been offered; receives meanwhile. */
static void pace(double pps, uint64_t end, uint64_t count)
{
    uint64_t last = rte_rdtsc(), now;
    double due = 0, attack = 0;
    while ((now = rte_rdtsc()) < end && count) {
        double ticks = turn(last, now);
        due = pps > 0 ? due + ticks * pps / hz : BURST;
        attack += ticks * attack_pps / hz;
        last = now;
        /* Packets that are late because a turn took too long are sent later, up to a limit. */
        if (attack > RING)
            attack = RING;
        if (due > RING)
            due = RING;
        unsigned n = due < BURST ? (unsigned)due : BURST;
        if (n > count)
            n = count;
        if (n) {
            offer(n);
            due -= n;
            count -= n;
        }
        if (attack >= 1) {
            n = attack < BURST ? (unsigned)attack : BURST;
            send_attack(n);
            attack -= n;
            drain();
        }
        forward();
        receive();
    }
}

static void listen_for(double seconds)
{
    uint64_t last = rte_rdtsc(), now;
    for (uint64_t end = last + (uint64_t)(seconds * hz); (now = rte_rdtsc()) < end; last = now) {
        turn(last, now);
        forward();
        receive();
    }
}

static void clear(void)
{
    memset(cells, 0, sizeof cells);
    sent = refused = received = guest_refused = without_latency = attacked = attack_refused = paused = 0;
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

static double percentile(double share)
{
    uint64_t left = (uint64_t)(share * (received - without_latency));
    for (unsigned i = 0; i < CELLS; i++) {
        if (cells[i] > left)
            return i / 16.0;
        left -= cells[i];
    }
    return 0;
}

static void report(double seconds)
{
    static const unsigned bounds[] = {10, 20, 50, 100, 200, 300, CELLS / 16};
    printf("{\"seconds\": %.3f, \"sent\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"received\": %" PRIu64
           ", \"guest_refused\": %" PRIu64 ", \"without_latency\": %" PRIu64 ", \"paused\": %.4f, \"attacked\": %" PRIu64 ", \"attack_refused\": %" PRIu64
           ", \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"max\": %.2f, \"bins\": [",
           seconds, sent, refused, received, guest_refused, without_latency, (double)paused / hz, attacked, attack_refused, percentile(0.5), percentile(0.9),
           percentile(0.99), percentile(0.999), received > without_latency ? percentile((received - without_latency - 1.0) / (received - without_latency)) : 0);
    for (unsigned b = 0, i = 0; b < RTE_DIM(bounds); b++) {
        uint64_t n = 0;
        for (; i < 16 * bounds[b]; i++)
            n += cells[i];
        printf("%s%" PRIu64, b ? ", " : "", n);
    }
    puts("]}");
    fflush(stdout);
}

/* Clears the counters, sends at a rate for `seconds`, and prints the result. */
static void phase(double pps, double seconds)
{
    clear();
    uint64_t from = rte_rdtsc();
    pace(pps, from + (uint64_t)(seconds * hz), UINT64_MAX);
    double took = (double)(rte_rdtsc() - from) / hz;
    listen_for(SETTLE);
    report(took);
}

static void storm(void)
{
    char kind[8];
    double pps, seconds;
    say("begin");
    while (scanf("%lf %lf %7s %lf", &pps, &seconds, kind, &attack_pps) == 4) {
        by_masks = !strcmp(kind, "masks");
        phase(pps, seconds);
    }
}

static void chain(void)
{
    double pps, seconds;
    say("begin");
    while (scanf("%lf %lf", &pps, &seconds) == 2)
        phase(pps, seconds);
}

int main(int argc, char **argv)
{
    int taken = rte_eal_init(argc, argv);
    if (taken < 0)
        die("DPDK does not start");
    argc -= taken;
    argv += taken;
    hz = rte_get_tsc_hz();
    pool = rte_pktmbuf_pool_create("guest", 8 * RING + 8191, 256, 0, 2048, SOCKET_ID_ANY);
    if (!pool)
        die("no memory");
    start(0);
    start(1);
    int storming = argc == 3 && !strcmp(argv[1], "storm");
    if (storming)
        start(2);
    if (argc == 4 && !strcmp(argv[1], "chain")) {
        int frame = atoi(argv[2]);
        if (frame < LENGTH || frame > LENGTH_MAX)
            die("the length is not 60 to 1514");
        set_length(frame);
        guests = atoi(argv[3]);
        for (unsigned port = 2; port < 2 + 2 * guests; port++)
            start(port);
    }
    say("ready");
    if (guests) {
        pace(0, rte_rdtsc() + hz, UINT64_MAX);
        chain();
    } else if (storming) {
        flows = atoi(argv[2]);
        pace(0, rte_rdtsc() + hz, UINT64_MAX);
        storm();
    } else if (argc == 4 && !strcmp(argv[1], "pace")) {
        double pps = atof(argv[2]);
        pace(pps, rte_rdtsc() + hz, UINT64_MAX);
        say("begin");
        phase(pps, atof(argv[3]));
    } else if (argc == 6 && !strcmp(argv[1], "step")) {
        uint64_t count = strtoull(argv[2], NULL, 10);
        double pps = atof(argv[3]), quiet = atof(argv[4]) / 1000;
        listen_for(1);
        clear();
        say("begin");
        for (int i = atoi(argv[5]); i > 0; i--) {
            listen_for(quiet);
            pace(pps, UINT64_MAX, count);
        }
        listen_for(0.1);
        report(0);
    } else {
        die("usage: pace PPS SECONDS | step COUNT PPS QUIET-MS STEPS | storm FLOWS | chain LENGTH GUESTS");
    }
    rte_eth_dev_stop(0);
    rte_eth_dev_stop(1);
    rte_eal_cleanup();
    return 0;
}
