/* Preloaded by `zmtpscope keys record`: writes the shared key of every CURVE connection of the program to a key log.

   libzmq opens one box directly before it computes the key k that is shared by both sides, on the same thread and with
   the same secret: a client WELCOME (curve_client_tools.hpp, process_welcome), a server INITIATE and the vouch in it
   (curve_server.cpp, process_initiate). The nonce names the box, so it tells the role; a client's C' belongs to the
   secret it uses, a server is given C'. Keys made for other purposes are never written. No secret is kept: what
   a thread remembers is an address to compare with. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned char octet;
typedef int box_open(octet *, const octet *, unsigned long long, const octet *, const octet *, const octet *);
typedef int box_beforenm(octet *, const octet *, const octet *);
typedef int scalarmult_base(octet *, const octet *);

static char key_log[PATH_MAX];
static __thread enum { OTHER, WELCOME, INITIATE } opened;
static __thread const octet *opened_with;

/* Read before the program runs: it may change its environment, also while another thread reads it. */
__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ZMTPSCOPE_KEY_LOG");
    if (path && strlen(path) < sizeof key_log)
        strcpy(key_log, path);
}

static int copy_libsodium_path(struct dl_phdr_info *object, size_t size, void *path)
{
    (void)size;
    if (!strstr(object->dlpi_name, "libsodium") || strlen(object->dlpi_name) >= PATH_MAX)
        return 0;
    strcpy(path, object->dlpi_name);
    return 1;
}

/* The function in a loaded object or in what it is linked with. */
static void *function_in(const char *path, const char *name)
{
    void *object = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *function = object ? dlsym(object, name) : NULL;
    if (object)
        dlclose(object);
    return function;
}

/* What the caller would have called without us: what the whole program sees, then what the caller's own object is
   linked with (RTLD_NEXT does not see what was loaded with RTLD_LOCAL). Where neither has it, the first libsodium that
   is loaded: a jump at the end of a function leaves no trace of the object it is in. Looked up anew each time, since
   objects come and go. */
static void *original(const char *name, const void *caller)
{
    int error = errno;
    char path[PATH_MAX];
    Dl_info object;
    void *function = dlsym(RTLD_NEXT, name);
    if (!function && dladdr(caller, &object))
        function = function_in(object.dli_fname, name);
    if (!function && dl_iterate_phdr(copy_libsodium_path, path))
        function = function_in(path, name);
    errno = error;
    return function;
}

static char *put_key(char *end, const octet *key)
{
    for (int i = 0; i < 32; i++) {
        *end++ = "0123456789abcdef"[key[i] >> 4];
        *end++ = "0123456789abcdef"[key[i] & 15];
    }
    return end;
}

/* One write for a line, so that threads and processes may share the file. What goes wrong is no concern of the program.
   The file is never created here, and left alone when it is not, or no longer, readable by its owner only. */
static void write_line(const octet *client_key, const octet *shared_key)
{
    struct stat status;
    char line[160], *end = put_key(stpcpy(line, "CURVE_SHARED "), client_key);
    *end++ = ' ';
    end = put_key(end, shared_key);
    *end++ = '\n';
    int file = open(key_log, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file >= 0 && !fstat(file, &status) && S_ISREG(status.st_mode) && !(status.st_mode & (S_IRWXG | S_IRWXO))
        && status.st_uid == geteuid() && write(file, line, end - line) < 0) {
    }
    if (file >= 0)
        close(file);
    explicit_bzero(line, sizeof line);
}

int crypto_box_open(octet *message, const octet *box, unsigned long long size, const octet *nonce,
                    const octet *public_key, const octet *secret_key)
{
    box_open *open_box = original("crypto_box_open", __builtin_return_address(0));
    int result = open_box ? open_box(message, box, size, nonce, public_key, secret_key) : -1;
    if (result == 0 && !memcmp(nonce, "VOUCH---", 8))
        return result; /* stands between INITIATE and the shared key */
    opened = OTHER;
    opened_with = secret_key;
    if (result == 0 && !memcmp(nonce, "WELCOME-", 8))
        opened = WELCOME;
    if (result == 0 && !memcmp(nonce, "CurveZMQINITIATE", 16))
        opened = INITIATE;
    return result;
}

int crypto_box_beforenm(octet *shared_key, const octet *public_key, const octet *secret_key)
{
    const void *caller = __builtin_return_address(0);
    box_beforenm *compute = original("crypto_box_beforenm", caller);
    int result = compute ? compute(shared_key, public_key, secret_key) : -1, error = errno;
    if (result == 0 && opened == INITIATE && opened_with == secret_key)
        write_line(public_key, shared_key);
    if (result == 0 && opened == WELCOME && opened_with == secret_key) {
        scalarmult_base *public_of = original("crypto_scalarmult_base", caller);
        octet client_key[32];
        if (public_of && !public_of(client_key, secret_key))
            write_line(client_key, shared_key);
    }
    opened = OTHER;
    errno = error;
    return result;
}
