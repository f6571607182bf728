/* A disk that fails when it is told to, for `disk.py`: put before libc with LD_PRELOAD.
 *
 * While the file named by $FAILING_DISK_FULL exists, no write to a SQLite file or its log
 * finds space, or, if something stands in it, the quota is used up. While the file named
 * by $FAILING_DISK_BROKEN exists, these writes fail, because the disk does or, if something
 * stands in it, because it can only be read. When the file named by $FAILING_DISK_FLUSH exists, the next flush of the
 * log fails, once for every descriptor, as Linux tells of it: the file is gone then, and so
 * is what the flush should have kept, because a system may drop the pages that it could
 * not write. With $FAILING_DISK_PRETEND the flush fails, too, but the system goes on to show
 * what it could not write: that is lost when the power is cut, also under a later process
 * (the file named by $FAILING_DISK_LOST knows it), unless it was written anew and flushed.
 * With $FAILING_DISK_OPEN the next flush fails, whether anything was written or not. When
 * the file named by $FAILING_DISK_POWER exists, the power is cut at the
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
#include <sys/stat.h>
#include <unistd.h>

typedef ssize_t (*writing)(int, const void *, size_t, off64_t);
typedef int (*flushing)(int);

enum kind { OTHER, STORE, LOG, PROBE };

/* A write that was not flushed yet, and what it replaced; the newest comes first. */
struct change {
    struct change *older;
    enum kind kind;
    unsigned long number;
    int lost; /* flushing does not help: only writing it anew does */
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
    if (ends(path, length, ".db-probe")) return PROBE;
    return ends(path, length, ".db-wal") ? LOG : ends(path, length, ".db") ? STORE : OTHER;
}

/* Whether a marker is there: 1, or 2 when something stands in it. */
static int marked(const char *name) {
    const char *path = getenv(name);
    struct stat found;
    return !path || stat(path, &found) ? 0 : found.st_size ? 2 : 1;
}

/* Whether a marker was there; it is used up. */
static int taken(const char *name) {
    const char *path = getenv(name);
    return path && unlink(path) == 0;
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
        if (change->kind == kind && change->number <= number && !change->lost) {
            *place = change->older;
            free(change);
        } else {
            place = &change->older;
        }
    }
}

/* Leaves to a later process what the system only pretends to have written. */
static void pretend(void) {
    FILE *lost = fopen(getenv("FAILING_DISK_LOST"), "wb");
    if (!lost) abort();
    for (struct change *change = newest; change; change = change->older) {
        if (change->kind != LOG) continue;
        fwrite(change, sizeof *change, 1, lost);
        fwrite(change->old, change->size, 1, lost);
    }
    fclose(lost);
}

/* What an earlier process left: the oldest changes of all. */
static void remember(int file) {
    static int done;
    const char *path = getenv("FAILING_DISK_LOST");
    if (done++ || !path) return;
    FILE *lost = fopen(path, "rb");
    if (!lost) return;
    unlink(path);
    struct change head, **place = &newest;
    while (*place) place = &(*place)->older;
    for (int copy = dup(file); fread(&head, sizeof head, 1, lost) == 1; place = &(*place)->older) {
        *place = malloc(sizeof head + head.size);
        **place = (struct change){.kind = LOG, .lost = 1, .file = copy, .at = head.at, .size = head.size};
        if (fread((*place)->old, head.size, 1, lost) != 1) abort();
    }
    fclose(lost);
}

/* Makes two of a change: what lies behind so many bytes of it becomes the older one. */
static void split(struct change *change, size_t first) {
    size_t rest = change->size - first;
    struct change *second = malloc(sizeof *second + rest);
    if (!second) abort();
    *second = *change;
    second->at += (off64_t)first;
    second->size = rest;
    memcpy(second->old, change->old + first, rest);
    change->size = first;
    change->older = second;
}

/* What is written anew can be flushed; where that is a part of a change, the part. */
static void renew(off64_t at, size_t size) {
    off64_t end = at + (off64_t)size;
    for (struct change *change = newest; change; change = change->older) {
        off64_t behind = change->at + (off64_t)change->size;
        if (!change->lost || change->at >= end || behind <= at) continue;
        if (change->at < at) {
            split(change, (size_t)(at - change->at));
            continue;
        }
        if (behind > end) split(change, (size_t)(end - change->at));
        change->lost = 0, change->number = numbers;
    }
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    enum kind kind = kind_of(file);
    if (kind == OTHER || kind == PROBE) return really_write(file, data, size, offset);
    int full = marked("FAILING_DISK_FULL"), broken = marked("FAILING_DISK_BROKEN");
    if (full) return errno = full == 2 ? EDQUOT : ENOSPC, -1;
    if (broken) return errno = broken == 2 ? EROFS : EIO, -1;
    struct change *change = calloc(1, sizeof *change + size);
    if (!change) return errno = EIO, -1;
    pthread_mutex_lock(&lock);
    if (kind == LOG) remember(file);
    if (kind == LOG && taken("FAILING_DISK_POWER")) {
        srand((unsigned)getpid());
        undo(OTHER, getpid() % 2);
        kill(getpid(), SIGKILL);
    }
    *change = (struct change){.older = newest, .kind = kind, .number = ++numbers, .file = file, .at = offset, .size = size};
    if (pread64(file, change->old, size, offset) < 0) abort();
    newest = change;
    if (kind == LOG) renew(offset, size);
    ssize_t written = really_write(file, data, size, offset);
    pthread_mutex_unlock(&lock);
    return written;
}

static int flush(int file, const char *name) {
    enum kind kind = kind_of(file);
    pthread_mutex_lock(&lock);
    if (kind == LOG) remember(file);
    if (kind == LOG && file < DESCRIPTORS) {
        int pretends = newest && taken("FAILING_DISK_PRETEND");
        if (pretends || (newest && taken("FAILING_DISK_FLUSH"))) {
            failures++;
            if (pretends) pretend(); else undo(LOG, 0);
            kept(LOG, numbers);
        } else if (taken("FAILING_DISK_OPEN")) {
            failures++;
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

ssize_t write(int file, const void *data, size_t size) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (marked("FAILING_DISK_FULL") == 2 && kind_of(file) == PROBE) return errno = EDQUOT, -1;
    return next(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return pwrite64(file, data, size, offset); }
int fdatasync(int file) { return flush(file, "fdatasync"); }
int fsync(int file) { return flush(file, "fsync"); }
