/* What reading costs at least: walks the same headers as zmtpscope and does nothing else.
 *
 * pcap (little-endian, Ethernet) -> IPv4 -> TCP -> ZMTP 3.x frames of each direction, in order. Counts packets,
 * connections, message frames, command frames and octets of message bodies, and prints them as JSON. Knows no loss, no
 * reordering, no other version: a direction whose next segment is missing is left alone ("broken").
 *
 *     cc -O2 -o walk walk.c && ./walk FILE
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYN = 2, ACK = 16, GREETING = 64, LONG = 2, COMMAND = 4 };

/* One direction of a connection: where its stream is, and where in a frame. */
struct flow {
    uint64_t addresses;
    uint32_t ports;
    uint32_t next;       /* sequence number of the next octet */
    uint64_t to_skip;    /* octets of a greeting or body still to come */
    uint8_t header[9];   /* a frame header under way */
    uint8_t header_has;
    uint8_t used, broken;
};

static struct flow *flows;
static size_t flow_count, flow_room = 1 << 12;
static uint64_t packets, connections, message_frames, command_frames, body_octets, broken;

static struct flow *find(uint64_t addresses, uint32_t ports);

static void grow(void)
{
    struct flow *old = flows;
    size_t old_room = old ? flow_room : 0;

    if (old)
        flow_room *= 2;
    flows = calloc(flow_room, sizeof *flows);
    if (!flows) {
        fputs("walk: no memory\n", stderr);
        exit(1);
    }
    flow_count = 0;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].used)
            *find(old[i].addresses, old[i].ports) = old[i];
    free(old);
}

/* The flow of this direction; a new one has nothing but its key and waits for a greeting. */
static struct flow *find(uint64_t addresses, uint32_t ports)
{
    if (2 * flow_count >= flow_room)
        grow();
    uint64_t hash = (addresses ^ (uint64_t)ports << 16) * 0x9E3779B97F4A7C15u;
    size_t at = (hash ^ hash >> 32) & (flow_room - 1);

    while (flows[at].used && (flows[at].addresses != addresses || flows[at].ports != ports))
        at = (at + 1) & (flow_room - 1);
    if (!flows[at].used) {
        flow_count++;
        flows[at] = (struct flow){.addresses = addresses, .ports = ports, .to_skip = GREETING, .used = 1};
    }
    return &flows[at];
}

/* The next octets of a stream: bodies are skipped by counting. */
static void frames(struct flow *flow, const uint8_t *octets, size_t length)
{
    size_t at = 0;

    while (at < length) {
        if (flow->to_skip) {
            uint64_t skipped = flow->to_skip < length - at ? flow->to_skip : length - at;
            flow->to_skip -= skipped;
            at += skipped;
            continue;
        }
        flow->header[flow->header_has++] = octets[at++];
        uint8_t flags = flow->header[0];
        if (flow->header_has < (flags & LONG ? 9 : 2))
            continue;
        uint64_t size = flow->header[1];
        if (flags & LONG)
            for (int i = 2; i < 9; i++)
                size = size << 8 | flow->header[i];
        flow->header_has = 0;
        flow->to_skip = size;
        if (flags & COMMAND) {
            command_frames++;
        } else {
            message_frames++;
            body_octets += size;
        }
    }
}

static uint32_t big(const uint8_t *octets, int count)
{
    uint32_t number = 0;

    while (count--)
        number = number << 8 | *octets++;
    return number;
}

/* One packet of `length` octets from its Ethernet header on. */
static void packet(const uint8_t *octets, uint32_t length)
{
    packets++;
    if (length < 54 || octets[12] != 8 || octets[13] != 0 || octets[23] != 6)
        return;
    const uint8_t *ip = octets + 14, *tcp = ip + (ip[0] & 15) * 4;
    const uint8_t *payload = tcp + (tcp[12] >> 4) * 4;
    const uint8_t *stop = ip + big(ip + 2, 2);
    uint64_t addresses;

    if (stop > octets + length || payload > stop)
        return;
    memcpy(&addresses, ip + 12, 8);
    struct flow *flow = find(addresses, big(tcp, 4));
    uint32_t sequence = big(tcp + 4, 4);
    uint8_t flags = tcp[13];
    if (flags & SYN) {
        connections += !(flags & ACK);
        flow->next = sequence + 1;
        flow->to_skip = GREETING;
        flow->header_has = flow->broken = 0;
    } else if (payload < stop && !flow->broken) {
        if (sequence != flow->next) {
            flow->broken = 1;
            broken++;
            return;
        }
        flow->next += (uint32_t)(stop - payload);
        frames(flow, payload, (size_t)(stop - payload));
    }
}

int main(int count, char **words)
{
    int file = count == 2 ? open(words[1], O_RDONLY) : -1;
    struct stat status;

    if (file < 0 || fstat(file, &status) || status.st_size < 24) {
        fputs("usage: walk FILE (a pcap)\n", stderr);
        return 2;
    }
    size_t size = (size_t)status.st_size, at = 24;
    const uint8_t *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    uint32_t head[4];

    if (data == MAP_FAILED || memcmp(data, "\xd4\xc3\xb2\xa1", 4) || data[20] != 1) {
        fputs("walk: only little-endian pcap of Ethernet is known\n", stderr);
        return 2;
    }
    grow();
    while (at + 16 <= size) {
        memcpy(head, data + at, 16);
        at += 16;
        if (head[2] > size - at)
            break;
        packet(data + at, head[2]);
        at += head[2];
    }
    printf("{\"packets\": %llu, \"connections\": %llu, \"message_frames\": %llu, \"commands\": %llu, "
           "\"message_body_bytes\": %llu, \"broken\": %llu}\n",
           (unsigned long long)packets, (unsigned long long)connections, (unsigned long long)message_frames,
           (unsigned long long)command_frames, (unsigned long long)body_octets, (unsigned long long)broken);
    return 0;
}
