/* Library preloaded by `zmtpscope keys record`: writes the shared key of every CURVE connection of the program to a key
   log.

   Before libzmq computes the shared key k, it opens a box on the same thread with the same secret: a client opens
   WELCOME (curve_client_tools.hpp, process_welcome), a server opens INITIATE and the vouch in it (curve_server.cpp,
   process_initiate). The nonce identifies the box and so the role. The box provides the transient public key of the
   other side: S' is in WELCOME, and INITIATE is opened with C'. Only a key computed from that public key is written. A
   client's own C' belongs to the secret that it uses. No secret is kept: a thread remembers only its address. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned char octet;
typedef int box_open(octet *, const octet *, unsigned long long, const octet *, const octet *, const octet *);
typedef int box_beforenm(octet *, const octet *, const octet *);
typedef int scalarmult_base(octet *, const octet *);
enum function { BOX_OPEN, BOX_BEFORENM, SCALARMULT_BASE, FUNCTIONS };

static const char *const names[FUNCTIONS] = {"crypto_box_open", "crypto_box_beforenm", "crypto_scalarmult_base"};
static char key_log[PATH_MAX];
static void *there_from_the_start[FUNCTIONS];
static __thread enum { OTHER, WELCOME, INITIATE } opened;
static __thread const octet *opened_with;
static __thread octet public_key_of_peer[32];

/* A loaded object. `unloaded` is the number of objects unloaded before. */
struct object {
    const void *address;
    int place;
    ElfW(Addr) base;
    unsigned long long unloaded;
    char path[PATH_MAX];
};

static __thread struct {
    ElfW(Addr) caller;
    unsigned long long unloaded;
    void *function;
} known[FUNCTIONS];

/* Read the path before the program runs: the program may change its environment, even while another thread reads it.
   Objects that are loaded now are never unloaded. */
__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ZMTPSCOPE_KEY_LOG");
    if (path && strlen(path) < sizeof key_log)
        strcpy(key_log, path);
    for (int i = 0; i < FUNCTIONS; i++)
        there_from_the_start[i] = dlsym(RTLD_NEXT, names[i]);
    dlerror(); /* a missing function is not an error of the program */
}

static int is_in(const struct dl_phdr_info *object, const void *address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (ElfW(Addr))address - object->dlpi_addr - part->p_vaddr < part->p_memsz)
            return 1;
    }
    return 0;
}

/* Callback of dl_iterate_phdr: find the object that contains the address, or else the object at the place, but never
   this library. */
static int find(struct dl_phdr_info *each, size_t size, void *result)
{
    struct object *object = result;
    (void)size;
    if (is_in(each, names) || (object->address ? !is_in(each, object->address) : object->place-- > 0))
        return 0;
    object->base = each->dlpi_addr;
    object->unloaded = each->dlpi_subs;
    snprintf(object->path, sizeof object->path, "%s", each->dlpi_name);
    return 1;
}

/* Return the function in a loaded object or its dependencies. The program itself has no path; RTLD_NEXT covers it. */
static void *function_in(const char *path, const char *name)
{
    void *object = *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *function = object ? dlsym(object, name) : NULL;
    if (object)
        dlclose(object);
    return function;
}

/* Return the function that the caller would call without this library: the program's global one, or else the one that
   the caller's own object depends on (RTLD_NEXT does not find objects loaded with RTLD_LOCAL). If neither exists,
   return the first object's: a tail call leaves no trace of the calling object.
   dlsym and dlopen wait while another thread runs a constructor of an object that it loads, and that constructor may
   wait for us. So they are called only for objects loaded later, and again only after an object was unloaded, which may
   have been the caller's or the function's. dl_iterate_phdr does not wait for constructors; its callback must not load
   objects. */
static void *original(enum function which, const void *caller)
{
    if (there_from_the_start[which])
        return there_from_the_start[which];
    struct object object = {.address = caller};
    int error = errno, found = dl_iterate_phdr(find, &object);
    if (found && known[which].function && known[which].caller == object.base
        && known[which].unloaded == object.unloaded) {
        errno = error;
        return known[which].function;
    }
    known[which].caller = object.base;
    known[which].unloaded = object.unloaded;
    void *function = dlsym(RTLD_NEXT, names[which]);
    if (!function && found)
        function = function_in(object.path, names[which]);
    for (int place = 0; !function; place++) {
        object = (struct object){.place = place};
        if (!dl_iterate_phdr(find, &object))
            break;
        function = function_in(object.path, names[which]);
    }
    dlerror();
    errno = error;
    return known[which].function = function;
}

static char *put_key(char *end, const octet *key)
{
    for (int i = 0; i < 32; i++) {
        *end++ = "0123456789abcdef"[key[i] >> 4];
        *end++ = "0123456789abcdef"[key[i] & 15];
    }
    return end;
}

/* Write without the signal SIGXFSZ that a limit on file sizes raises; a signal pending before stays pending. A plain
   file raises no other signal. On Linux sigprocmask affects the calling thread and, unlike pthread_sigmask, is in every
   libc. */
static void write_quietly(int file, const char *octets, size_t size)
{
    sigset_t limit, before, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &limit, &before);
    sigpending(&pending);
    if (write(file, octets, size) < 0 && errno == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&limit, NULL, &(struct timespec){0});
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Write a line in one call, so that threads and processes can share the file. If the last line was cut off by a full
   disk or a limit, write a newline first. Errors are ignored, and the thread cannot be cancelled meanwhile. The file is
   never created here, and not written unless only its owner can read it. */
static void write_line(const octet *client_key, const octet *shared_key)
{
    struct stat status;
    char last = '\n', line[160] = "\n", *begin = line + 1, *end = put_key(stpcpy(begin, "CURVE_SHARED "), client_key);
    *end++ = ' ';
    end = put_key(end, shared_key);
    *end++ = '\n';
    int cancellation;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    int file = open(key_log, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file >= 0 && !fstat(file, &status) && S_ISREG(status.st_mode) && !(status.st_mode & (S_IRWXG | S_IRWXO))
        && status.st_uid == geteuid()) {
        if (status.st_size && (pread(file, &last, 1, status.st_size - 1) != 1 || last != '\n'))
            begin = line;
        write_quietly(file, begin, end - begin);
    }
    if (file >= 0)
        close(file);
    pthread_setcancelstate(cancellation, NULL);
    explicit_bzero(line, sizeof line);
}

int crypto_box_open(octet *message, const octet *box, unsigned long long size, const octet *nonce,
                    const octet *public_key, const octet *secret_key)
{
    box_open *open_box = original(BOX_OPEN, __builtin_return_address(0));
    int result = open_box ? open_box(message, box, size, nonce, public_key, secret_key) : -1;
    if (result == 0 && !memcmp(nonce, "VOUCH---", 8))
        return result; /* the vouch is opened after INITIATE and before the shared key is computed */
    opened = OTHER;
    opened_with = secret_key;
    if (result == 0 && !memcmp(nonce, "WELCOME-", 8) && size >= 64) {
        opened = WELCOME;
        memcpy(public_key_of_peer, message + 32, 32); /* after the 32 octets of padding of this interface */
    }
    if (result == 0 && !memcmp(nonce, "CurveZMQINITIATE", 16)) {
        opened = INITIATE;
        memcpy(public_key_of_peer, public_key, 32);
    }
    return result;
}

int crypto_box_beforenm(octet *shared_key, const octet *public_key, const octet *secret_key)
{
    const void *caller = __builtin_return_address(0);
    box_beforenm *compute = original(BOX_BEFORENM, caller);
    int result = compute ? compute(shared_key, public_key, secret_key) : -1, error = errno;
    if (result == 0 && opened != OTHER && opened_with == secret_key && !memcmp(public_key_of_peer, public_key, 32)) {
        octet own_key[32];
        scalarmult_base *public_of = opened == WELCOME ? original(SCALARMULT_BASE, caller) : NULL;
        if (opened == INITIATE)
            write_line(public_key, shared_key);
        else if (public_of && !public_of(own_key, secret_key))
            write_line(own_key, shared_key);
    }
    opened = OTHER;
    errno = error;
    return result;
}
