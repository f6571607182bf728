/* A disk that fails when it is told to, for `disk.py`: put before libc with LD_PRELOAD.
 *
 * While the file named by $FAILING_DISK_FULL exists, no write to a SQLite file or its log
 * finds space. When the file named by $FAILING_DISK_FLUSH exists, the next flush of a
 * commit fails, once: the file is gone then, and so is what the flush should have kept,
 * because a system may drop the pages that it could not write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ssize_t (*writing)(int, const void *, size_t, off64_t);
typedef int (*flushing)(int);

/* The part of the log that this thread has written and not flushed yet. */
static _Thread_local off64_t from, to;

static int ends(int file, const char *ending) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    ssize_t tail = (ssize_t)strlen(ending);
    return length >= tail && memcmp(path + length - tail, ending, tail) == 0;
}

static ssize_t really_write(int file, const void *data, size_t size, off64_t offset) {
    static writing next;
    if (!next) next = (writing)dlsym(RTLD_NEXT, "pwrite64");
    return next(file, data, size, offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    const char *full = getenv("FAILING_DISK_FULL");
    int is_log = ends(file, ".db-wal");
    if (full && access(full, F_OK) == 0 && (is_log || ends(file, ".db"))) {
        errno = ENOSPC;
        return -1;
    }
    if (is_log) {
        if (from == to || offset < from) from = offset;
        if (offset + (off64_t)size > to) to = offset + (off64_t)size;
    }
    return really_write(file, data, size, offset);
}

static int flush(int file, const char *name) {
    static const char zeros[4096];
    const char *marker = getenv("FAILING_DISK_FLUSH");
    if (from < to && ends(file, ".db-wal")) {
        int fails = marker && unlink(marker) == 0;
        for (size_t size; fails && from < to; from += (off64_t)size) {
            size = to - from < (off64_t)sizeof zeros ? (size_t)(to - from) : sizeof zeros;
            really_write(file, zeros, size, from);
        }
        from = to = 0;
        if (fails) return errno = EIO, -1;
    }
    return ((flushing)dlsym(RTLD_NEXT, name))(file);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return pwrite64(file, data, size, offset); }
int fdatasync(int file) { return flush(file, "fdatasync"); }
int fsync(int file) { return flush(file, "fsync"); }
