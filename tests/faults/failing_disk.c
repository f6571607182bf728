/* A disk that fails when it is told to, for `disk.py`: put before libc with LD_PRELOAD.
 *
 * While the file named by $FAILING_DISK_FULL exists, no write to a SQLite file or its log
 * finds space. When the file named by $FAILING_DISK_FLUSH exists, the next flush of the
 * log fails, once for every descriptor, as Linux tells of it: the file is gone then, and so
 * is what the flush should have kept, because a system may drop the pages that it could
 * not write. When the file named by $FAILING_DISK_POWER exists, the power is cut at the
 * next write to the log: what was written and not flushed is lost, all of it or some, and
 * the process is killed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ssize_t (*writing)(int, const void *, size_t, off64_t);
typedef int (*flushing)(int);

enum kind { OTHER, STORE, LOG };

/* A write that was not flushed yet, and what it replaced; the newest comes first. */
struct change {
    struct change *older;
    enum kind kind;
    unsigned long number;
    int file;
    off64_t at;
    size_t size;
    char old[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct change *newest;
static unsigned long numbers;

#define DESCRIPTORS 65536
static unsigned failures, told[DESCRIPTORS];

static int ends(const char *path, ssize_t length, const char *ending) {
    ssize_t tail = (ssize_t)strlen(ending);
    return length >= tail && memcmp(path + length - tail, ending, tail) == 0;
}

static enum kind kind_of(int file) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    return ends(path, length, ".db-wal") ? LOG : ends(path, length, ".db") ? STORE : OTHER;
}

static ssize_t really_write(int file, const void *data, size_t size, off64_t offset) {
    static writing next;
    if (!next) next = (writing)dlsym(RTLD_NEXT, "pwrite64");
    return next(file, data, size, offset);
}

/* Takes back what was not flushed: of one kind of file, or of all; all of it, or half. */
static void undo(enum kind kind, int half) {
    for (struct change *change = newest; change; change = change->older)
        if ((kind == OTHER || change->kind == kind) && !(half && rand() % 2))
            really_write(change->file, change->old, change->size, change->at);
}

/* What was written up to this number is on the disk, or gone for good. */
static void kept(enum kind kind, unsigned long number) {
    for (struct change **place = &newest; *place;) {
        struct change *change = *place;
        if (change->kind == kind && change->number <= number) {
            *place = change->older;
            free(change);
        } else {
            place = &change->older;
        }
    }
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    const char *full = getenv("FAILING_DISK_FULL"), *power = getenv("FAILING_DISK_POWER");
    enum kind kind = kind_of(file);
    if (kind == OTHER) return really_write(file, data, size, offset);
    if (full && access(full, F_OK) == 0) return errno = ENOSPC, -1;
    struct change *change = calloc(1, sizeof *change + size);
    if (!change) return errno = EIO, -1;
    pthread_mutex_lock(&lock);
    if (kind == LOG && power && unlink(power) == 0) {
        srand((unsigned)getpid());
        undo(OTHER, getpid() % 2);
        kill(getpid(), SIGKILL);
    }
    *change = (struct change){.older = newest, .kind = kind, .number = ++numbers, .file = file, .at = offset, .size = size};
    if (pread64(file, change->old, size, offset) < 0) abort();
    newest = change;
    ssize_t written = really_write(file, data, size, offset);
    pthread_mutex_unlock(&lock);
    return written;
}

static int flush(int file, const char *name) {
    const char *marker = getenv("FAILING_DISK_FLUSH");
    enum kind kind = kind_of(file);
    pthread_mutex_lock(&lock);
    if (kind == LOG && file < DESCRIPTORS) {
        if (newest && marker && unlink(marker) == 0) {
            failures++;
            undo(LOG, 0);
            kept(LOG, numbers);
        }
        int fails = told[file] != failures;
        told[file] = failures;
        if (fails) {
            pthread_mutex_unlock(&lock);
            return errno = EIO, -1;
        }
    }
    unsigned long number = numbers;
    pthread_mutex_unlock(&lock);
    int failed = ((flushing)dlsym(RTLD_NEXT, name))(file);
    pthread_mutex_lock(&lock);
    if (!failed) kept(kind, number);
    pthread_mutex_unlock(&lock);
    return failed;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return pwrite64(file, data, size, offset); }
int fdatasync(int file) { return flush(file, "fdatasync"); }
int fsync(int file) { return flush(file, "fsync"); }
