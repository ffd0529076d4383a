/* Open the boxes of a file one by one with libsodium, and nothing else: what opening costs at least.
 *
 *     cc -O2 -o open_boxes open_boxes.c -lsodium; ./open_boxes FILE
 *
 * FILE: the key (32 octets), then for each box its size (4 octets, little-endian), nonce (24) and octets. Prints JSON:
 * boxes opened, octets found inside, CPU seconds of the loop alone. The prototypes stand here, so that no header of
 * libsodium is needed.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int sodium_init(void);
int crypto_secretbox_open_easy(unsigned char *content, const unsigned char *box, unsigned long long size,
                               const unsigned char *nonce, const unsigned char *key);

enum { KEY = 32, NONCE = 24, TAG = 16 };

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;

    if (!file || fseek(file, 0, SEEK_END) || sodium_init() < 0) {
        fputs("usage: open_boxes FILE\n", stderr);
        return 2;
    }
    size_t length = (size_t)ftell(file), at = KEY;
    unsigned char *octets = malloc(length), *content = malloc(length);

    rewind(file);
    if (!octets || !content || fread(octets, 1, length, file) != length)
        return 1;
    unsigned long long opened = 0, inside = 0;
    double begin = now();
    while (at + 4 + NONCE <= length) {
        const unsigned char *head = octets + at, *nonce = head + 4, *box = nonce + NONCE;
        size_t size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        if (size < TAG || size > length - at - 4 - NONCE)
            break;
        if (crypto_secretbox_open_easy(content, box, size, nonce, octets) == 0) {
            opened++;
            inside += size - TAG;
        }
        at += 4 + NONCE + size;
    }
    printf("{\"opened\": %llu, \"octets\": %llu, \"cpu\": %.6f}\n", opened, inside, now() - begin);
    return 0;
}
