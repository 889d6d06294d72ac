/* A disk that fails: preloaded into a process, it sees every call that changes the files under one
 * directory, counts them, and at one of them ends the process, or answers with an error in the
 * disk's place. It can also write down what was done, with the bytes, so that the files can be made
 * again as a disk would have had them if the power had gone at any of these calls.
 *
 * Nothing happens before `shim_arm`. The calls of all threads pass one after another, so that what
 * is written down is in the order in which it was done. SQLite and Python both go through libc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kinds of calls, as bits, and as they are written down. */
enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, UNLINK = 8, RENAME = 16, CREATE = 32, READ = 64, MARK = 128 };

/* What is done at the call that is chosen. */
enum { COUNT = 0, KILL_BEFORE = 1, KILL_AFTER = 2, KILL_HALFWAY = 3, FAIL = 4, FAIL_HALFWAY = 5 };

static char under[4096];
static size_t under_length;
static int armed, counted, action, error_number, record_file = -1;
static long chosen, failing, passed;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

static int (*real_openat)(int, const char *, int, ...);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static ssize_t (*real_pread)(int, void *, size_t, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off64_t);
static int (*real_unlink)(const char *);
static int (*real_rename)(const char *, const char *);

__attribute__((constructor)) static void find(void) {
    real_openat = dlsym(RTLD_NEXT, "openat64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_pread = dlsym(RTLD_NEXT, "pread64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_rename = dlsym(RTLD_NEXT, "rename");
}

/* Watch the calls of the kinds `kinds` under `directory`: at call number `at`, and at the ones
 * after it until there were `times`, do `what`. `record` is a file for all that changes, or -1. */
void shim_arm(const char *directory, int kinds, long at, long times, int what, int error, int record) {
    pthread_mutex_lock(&order);
    snprintf(under, sizeof under, "%s", directory);
    under_length = strlen(under);
    counted = kinds, chosen = at, failing = times, action = what, error_number = error;
    record_file = record, passed = 0, armed = 1;
    pthread_mutex_unlock(&order);
}

/* Watch no more; give how many calls were counted. */
long shim_disarm(void) {
    pthread_mutex_lock(&order);
    armed = 0, record_file = -1;
    long found = passed;
    pthread_mutex_unlock(&order);
    return found;
}

/* Let every call pass again, and go on writing down; give how many were counted. */
long shim_heal(void) {
    pthread_mutex_lock(&order);
    action = COUNT;
    long found = passed;
    pthread_mutex_unlock(&order);
    return found;
}

static int is_watched(const char *path) {
    return armed && strncmp(path, under, under_length) == 0
        && (path[under_length] == '/' || path[under_length] == 0);
}

/* Give the path of an open file, if it is one that is watched. */
static int watched_file(int file, char *path, size_t size) {
    char link[64];
    if (!armed || file == record_file)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return is_watched(path);
}

static void put(const void *bytes, size_t length) {
    while (length > 0) {
        long done = syscall(SYS_write, record_file, bytes, length);
        if (done <= 0)
            _exit(99); /* A record with a hole would prove nothing. */
        bytes = (const char *)bytes + done, length -= done;
    }
}

static uint64_t inode_of(int file) {
    struct stat64 found;
    return fstat64(file, &found) == 0 ? found.st_ino : 0;
}

/* Write a call down: what it was, how it ended (0, or an error), and on which file. */
static void note(uint32_t kind, int error, uint64_t inode, uint64_t offset, const char *path,
                 const char *other, const void *data, uint64_t length) {
    if (record_file < 0)
        return;
    struct __attribute__((packed)) {
        uint32_t kind;
        int32_t error;
        uint64_t inode, offset, length;
        uint32_t path, other;
    } head = {kind, error, inode, offset, length, strlen(path), strlen(other)};
    put(&head, sizeof head);
    put(path, head.path);
    put(other, head.other);
    if (kind == WRITE || kind == MARK)
        put(data, length);
}

/* Write something down that the process says of itself, in its place among the calls. */
void shim_mark(const char *text) {
    pthread_mutex_lock(&order);
    if (armed)
        note(MARK, 0, 0, 0, "", "", text, strlen(text));
    pthread_mutex_unlock(&order);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Count a call, and say what is to be done at it (COUNT: only that). */
static int point(int kind) {
    if (!(counted & kind))
        return COUNT;
    passed++;
    int begun = passed >= chosen && chosen > 0;
    if (action == FAIL || action == FAIL_HALFWAY) {
        if (!begun || failing <= 0)
            return COUNT;
        failing--;
        int now = action;
        action = FAIL; /* A disk that fills up takes a part of one write, and then no more. */
        return now == FAIL_HALFWAY && kind != WRITE ? FAIL : now;
    }
    if (passed != chosen)
        return COUNT;
    if (action == KILL_BEFORE || (action == KILL_HALFWAY && kind != WRITE))
        die();
    return action;
}

static ssize_t writes(int file, const void *data, size_t length, off64_t offset, int moves) {
    char path[4096];
    if (!watched_file(file, path, sizeof path))
        return moves ? real_write(file, data, length) : real_pwrite(file, data, length, offset);
    pthread_mutex_lock(&order);
    int what = point(WRITE);
    ssize_t done = -1;
    int error = error_number;
    if (moves) {
        struct stat64 found;
        int appends = fcntl(file, F_GETFL) & O_APPEND;
        offset = appends && fstat64(file, &found) == 0 ? found.st_size : lseek64(file, 0, SEEK_CUR);
    }
    if (what != FAIL) {
        size_t part = what == KILL_HALFWAY || what == FAIL_HALFWAY ? length / 2 : length;
        done = moves ? real_write(file, data, part) : real_pwrite(file, data, part, offset);
        error = errno;
    }
    if (done > 0)
        note(WRITE, 0, inode_of(file), offset, path, "", data, done);
    if (what == KILL_AFTER || what == KILL_HALFWAY)
        die();
    pthread_mutex_unlock(&order);
    errno = error;
    return done;
}

ssize_t write(int file, const void *data, size_t length) { return writes(file, data, length, 0, 1); }
ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return writes(file, data, length, offset, 0);
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    return writes(file, data, length, offset, 0);
}

static ssize_t reads(int file, void *data, size_t length, off64_t offset) {
    char path[4096];
    if (!(counted & READ) || !watched_file(file, path, sizeof path))
        return real_pread(file, data, length, offset);
    pthread_mutex_lock(&order);
    int what = point(READ);
    pthread_mutex_unlock(&order);
    if (what == FAIL || what == FAIL_HALFWAY) {
        errno = error_number;
        return -1;
    }
    return real_pread(file, data, length, offset);
}

ssize_t pread(int file, void *data, size_t length, off_t offset) {
    return reads(file, data, length, offset);
}
ssize_t pread64(int file, void *data, size_t length, off64_t offset) {
    return reads(file, data, length, offset);
}

/* Do what has no parts: a call of `kind`, `doing` once, written down with how it ended. */
#define WHOLE(kind, doing, inode, offset, path, other)                                             \
    pthread_mutex_lock(&order);                                                                    \
    int what = point(kind), done = -1, error = error_number;                                       \
    if (what != FAIL) {                                                                            \
        done = doing;                                                                              \
        error = errno;                                                                             \
    }                                                                                              \
    note(kind, done < 0 ? error : 0, inode, offset, path, other, NULL, 0);                         \
    if (what == KILL_AFTER)                                                                        \
        die();                                                                                     \
    pthread_mutex_unlock(&order);                                                                  \
    errno = error;                                                                                 \
    return done;

int fsync(int file) {
    char path[4096];
    if (!watched_file(file, path, sizeof path))
        return real_fsync(file);
    WHOLE(SYNC, real_fsync(file), inode_of(file), 0, path, "")
}

int fdatasync(int file) {
    char path[4096];
    if (!watched_file(file, path, sizeof path))
        return real_fdatasync(file);
    WHOLE(SYNC, real_fdatasync(file), inode_of(file), 0, path, "")
}

static int truncates(int file, off64_t size) {
    char path[4096];
    if (!watched_file(file, path, sizeof path))
        return real_ftruncate(file, size);
    WHOLE(TRUNCATE, real_ftruncate(file, size), inode_of(file), size, path, "")
}

int ftruncate(int file, off_t size) { return truncates(file, size); }
int ftruncate64(int file, off64_t size) { return truncates(file, size); }

int unlink(const char *path) {
    if (!is_watched(path))
        return real_unlink(path);
    WHOLE(UNLINK, real_unlink(path), 0, 0, path, "")
}

int rename(const char *path, const char *other) {
    if (!is_watched(path) && !is_watched(other))
        return real_rename(path, other);
    WHOLE(RENAME, real_rename(path, other), 0, 0, path, other)
}

static int opens(int directory, const char *path, int flags, mode_t mode) {
    struct stat64 found;
    int makes = (flags & O_CREAT) && is_watched(path) && stat64(path, &found) != 0;
    if (!makes) /* O_TRUNC on a file that is there is not met: no store does that. */
        return real_openat(directory, path, flags, mode);
    pthread_mutex_lock(&order);
    int what = point(CREATE), file = -1, error = error_number;
    if (what != FAIL) {
        file = real_openat(directory, path, flags, mode);
        error = errno;
    }
    note(CREATE, file < 0 ? error : 0, file < 0 ? 0 : inode_of(file), 0, path, "", NULL, 0);
    if (what == KILL_AFTER)
        die();
    pthread_mutex_unlock(&order);
    errno = error;
    return file;
}

#define MODE_OF(flags)                                                                             \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opens(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opens(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int directory, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opens(directory, path, flags, mode);
}
int openat64(int directory, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opens(directory, path, flags | O_LARGEFILE, mode);
}
