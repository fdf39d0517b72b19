/* A guest that measures: sends by its first port at a pace, takes what comes back by its second, on one core.
 *
 *   guest EAL-ARGUMENTS -- pace PPS SECONDS             so many packets a second; 0: as fast as they are taken
 *   guest EAL-ARGUMENTS -- step COUNT PPS QUIET-MS STEPS    silence, then so many packets at that pace, again and again
 *
 * Each packet carries the time when it was sent. Standard output: "ready" when both ports are up; "begin" when warm-up is over
 * (a second) and counting begins; at the end one line of JSON: packets sent, refused (the ring was full: what a network card
 * would drop) and received, latencies in microseconds, and how many packets fell into each of the article's bins.
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
#define LENGTH 60
/* Latencies are counted in sixteenths of a microsecond, up to this many. */
#define CELLS (16 * 200000)
#define STAMP 42

static uint32_t cells[CELLS];
static uint64_t sent, refused, received, hz;
static struct rte_mempool *pool;

/* Ethernet, IPv4 from 10.0.0.1 to 20.0.0.0, UDP; the checksum of the IP header is right. */
static const uint8_t head[STAMP] = {
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

/* Offers n packets, n at most BURST; those that the ring does not take are refused. */
static void offer(unsigned n)
{
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
        packets[i]->data_len = packets[i]->pkt_len = LENGTH;
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
        if (packets[i]->data_len != LENGTH || memcmp(bytes, head, 12))
            continue;
        memcpy(&then, bytes + STAMP, sizeof then);
        uint64_t cell = (uint64_t)((double)(now - then) * 16e6 / hz);
        cells[cell < CELLS ? cell : CELLS - 1]++;
        received++;
    }
    rte_pktmbuf_free_bulk(packets, n);
}

/* Sends at a pace until `end` or until `count` have been offered, and receives meanwhile. */
static void pace(double pps, uint64_t end, uint64_t count)
{
    uint64_t last = rte_rdtsc(), now;
    double due = 0;
    while ((now = rte_rdtsc()) < end && count) {
        due = pps > 0 ? due + (double)(now - last) * pps / hz : BURST;
        last = now;
        /* A long stall of this thread is not made up for. */
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
        receive();
    }
}

static void listen_for(double seconds)
{
    for (uint64_t end = rte_rdtsc() + (uint64_t)(seconds * hz); rte_rdtsc() < end;)
        receive();
}

static void begin(void)
{
    memset(cells, 0, sizeof cells);
    sent = refused = received = 0;
    puts("begin");
    fflush(stdout);
}

static double percentile(double share)
{
    uint64_t left = (uint64_t)(share * received);
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
           ", \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"max\": %.2f, \"bins\": [",
           seconds, sent, refused, received, percentile(0.5), percentile(0.9), percentile(0.99), percentile(0.999),
           received ? percentile((received - 1.0) / received) : 0);
    for (unsigned b = 0, i = 0; b < RTE_DIM(bounds); b++) {
        uint64_t n = 0;
        for (; i < 16 * bounds[b]; i++)
            n += cells[i];
        printf("%s%" PRIu64, b ? ", " : "", n);
    }
    puts("]}");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int taken = rte_eal_init(argc, argv);
    if (taken < 0)
        die("DPDK does not start");
    argc -= taken;
    argv += taken;
    hz = rte_get_tsc_hz();
    pool = rte_pktmbuf_pool_create("guest", 4 * RING + 4095, 256, 0, 2048, SOCKET_ID_ANY);
    if (!pool)
        die("no memory");
    start(0);
    start(1);
    puts("ready");
    fflush(stdout);
    if (argc == 4 && !strcmp(argv[1], "pace")) {
        double pps = atof(argv[2]), seconds = atof(argv[3]);
        pace(pps, rte_rdtsc() + hz, UINT64_MAX);
        begin();
        uint64_t from = rte_rdtsc();
        pace(pps, from + (uint64_t)(seconds * hz), UINT64_MAX);
        double took = (double)(rte_rdtsc() - from) / hz;
        listen_for(0.02);
        report(took);
    } else if (argc == 6 && !strcmp(argv[1], "step")) {
        uint64_t count = strtoull(argv[2], NULL, 10);
        double pps = atof(argv[3]), quiet = atof(argv[4]) / 1000;
        listen_for(1);
        begin();
        for (int i = atoi(argv[5]); i > 0; i--) {
            listen_for(quiet);
            pace(pps, UINT64_MAX, count);
        }
        listen_for(0.1);
        report(0);
    } else {
        die("usage: pace PPS SECONDS | step COUNT PPS QUIET-MS STEPS");
    }
    rte_eth_dev_stop(0);
    rte_eth_dev_stop(1);
    rte_eal_cleanup();
    return 0;
}
