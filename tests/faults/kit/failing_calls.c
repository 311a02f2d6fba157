/* Calls to the operating system that fail, for files below one directory.
 *
 * Preloaded, this library stands before the C library. `fault_arm` says which calls fail and from
 * which one on; the calls of everybody else, and for files elsewhere, pass untouched. Calls are
 * counted for each class, so that a rehearsal knows how many there are.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The classes of calls. `failing_calls.py` has the same list, in the same order. */
enum { WRITE, SYNC, RENAME, OPEN, MAP, RESIZE, REMOVE, READ, MAKE, LOCK, LIST, LOOK, CLASSES };

/* How a call fails: nothing is done; half of a write is; half of it is, and that is no error. */
enum { NOTHING, TORN, SHORT };

static char prefix[PATH_MAX];
static size_t prefix_length;
static volatile int armed, first, error_number, sticky, manner, seen, fired;
static volatile int counts[CLASSES];

void fault_below(const char *directory) {
    prefix_length = strlen(directory);
    memcpy(prefix, directory, prefix_length + 1);
}

/* Let the calls of the classes in the bit set *classes* fail, from the *at*-th on. */
void fault_arm(int classes, int at, int number, int is_sticky, int how) {
    memset((void *)counts, 0, sizeof counts);
    seen = fired = 0;
    first = at, error_number = number, sticky = is_sticky, manner = how;
    __sync_synchronize();
    armed = classes;
}

void fault_disarm(void) { armed = 0; }
int fault_fired(void) { return fired; }
int fault_count(int class) { return counts[class]; }

static int below(const char *path) {
    return strncmp(path, prefix, prefix_length) == 0;
}

static int is_ours(int directory, const char *path) {
    char link[64], target[PATH_MAX];
    if (!armed || prefix_length == 0) return 0;
    if (path != NULL && path[0] == '/') return below(path);
    if (directory < 0) return 0;
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, target, sizeof target - 1);
    errno = kept;
    if (length < 0) return 0;
    target[length] = 0;
    return below(target);
}

static int fails(int class) {
    int classes = armed;
    if (!classes) return 0;
    __sync_add_and_fetch(&counts[class], 1);
    if (!(classes & (1 << class))) return 0;
    int number = __sync_add_and_fetch(&seen, 1);
    if (first == 0 || number < first || (number > first && !sticky)) return 0;
    __sync_add_and_fetch(&fired, 1);
    return 1;
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define CALL(type, name, class, ours, parameters, arguments) \
    type name parameters { \
        NEXT(name); \
        if (armed && is_ours ours && fails(class)) { errno = error_number; return (type)-1; } \
        return next arguments; \
    }
#define CALL_NULL(type, name, class, ours, parameters, arguments) \
    type name parameters { \
        NEXT(name); \
        if (armed && is_ours ours && fails(class)) { errno = error_number; return NULL; } \
        return next arguments; \
    }

/* Writing and reading. */
#define TRANSFER(name, class, buffer, more, rest) \
    ssize_t name(int fd, buffer data, size_t length more) { \
        NEXT(name); \
        if (armed && is_ours(fd, NULL) && fails(class)) { \
            if (manner == SHORT && length > 1) return next(fd, data, length / 2 rest); \
            if (manner == TORN && length > 1 && next(fd, data, length / 2 rest) < 0) return -1; \
            if (manner != SHORT) { errno = error_number; return -1; } \
        } \
        return next(fd, data, length rest); \
    }
#define COMMA ,
TRANSFER(write, WRITE, const void *, , )
TRANSFER(pwrite, WRITE, const void *, COMMA off_t at, COMMA at)
TRANSFER(pwrite64, WRITE, const void *, COMMA off64_t at, COMMA at)
TRANSFER(read, READ, void *, , )
TRANSFER(pread, READ, void *, COMMA off_t at, COMMA at)
TRANSFER(pread64, READ, void *, COMMA off64_t at, COMMA at)

#define VECTOR(name, class, more, rest) \
    ssize_t name(int fd, const struct iovec *parts, int number more) { \
        NEXT(name); \
        if (armed && is_ours(fd, NULL) && fails(class)) { \
            struct iovec part = parts[0]; \
            if (part.iov_len > 1) part.iov_len /= 2; \
            if (manner == SHORT) return next(fd, &part, 1 rest); \
            if (manner == TORN && next(fd, &part, 1 rest) < 0) return -1; \
            errno = error_number; \
            return -1; \
        } \
        return next(fd, parts, number rest); \
    }
VECTOR(writev, WRITE, , )
VECTOR(pwritev, WRITE, COMMA off_t at, COMMA at)
VECTOR(pwritev64, WRITE, COMMA off64_t at, COMMA at)
VECTOR(pwritev2, WRITE, COMMA off_t at COMMA int flags, COMMA at COMMA flags)
VECTOR(pwritev64v2, WRITE, COMMA off64_t at COMMA int flags, COMMA at COMMA flags)
VECTOR(readv, READ, , )
VECTOR(preadv, READ, COMMA off_t at, COMMA at)
VECTOR(preadv64, READ, COMMA off64_t at, COMMA at)
VECTOR(preadv2, READ, COMMA off_t at COMMA int flags, COMMA at COMMA flags)
VECTOR(preadv64v2, READ, COMMA off64_t at COMMA int flags, COMMA at COMMA flags)

CALL(int, fsync, SYNC, (fd, NULL), (int fd), (fd))
CALL(int, fdatasync, SYNC, (fd, NULL), (int fd), (fd))
CALL(int, msync, SYNC, (-1, prefix), (void *at, size_t length, int flags), (at, length, flags))
CALL(int, sync_file_range, SYNC, (fd, NULL),
     (int fd, off64_t at, off64_t length, unsigned flags), (fd, at, length, flags))

CALL(int, rename, RENAME, (-1, new), (const char *old, const char *new), (old, new))
CALL(int, renameat, RENAME, (to, new),
     (int from, const char *old, int to, const char *new), (from, old, to, new))
CALL(int, renameat2, RENAME, (to, new),
     (int from, const char *old, int to, const char *new, unsigned flags),
     (from, old, to, new, flags))
CALL(int, link, RENAME, (-1, new), (const char *old, const char *new), (old, new))

CALL(int, ftruncate, RESIZE, (fd, NULL), (int fd, off_t length), (fd, length))
CALL(int, ftruncate64, RESIZE, (fd, NULL), (int fd, off64_t length), (fd, length))
CALL(int, truncate, RESIZE, (-1, path), (const char *path, off_t length), (path, length))
CALL(int, truncate64, RESIZE, (-1, path), (const char *path, off64_t length), (path, length))
CALL(int, fallocate, RESIZE, (fd, NULL),
     (int fd, int mode, off_t at, off_t length), (fd, mode, at, length))
CALL(int, fallocate64, RESIZE, (fd, NULL),
     (int fd, int mode, off64_t at, off64_t length), (fd, mode, at, length))

CALL(int, unlink, REMOVE, (-1, path), (const char *path), (path))
CALL(int, unlinkat, REMOVE, (fd, path), (int fd, const char *path, int flags), (fd, path, flags))
CALL(int, remove, REMOVE, (-1, path), (const char *path), (path))
CALL(int, rmdir, REMOVE, (-1, path), (const char *path), (path))

CALL(int, mkdir, MAKE, (-1, path), (const char *path, mode_t mode), (path, mode))
CALL(int, mkdirat, MAKE, (fd, path), (int fd, const char *path, mode_t mode), (fd, path, mode))

/* Giving a lock up does not fail: closing the file would do it. */
int flock(int fd, int operation) {
    NEXT(flock);
    if (operation != LOCK_UN && armed && is_ours(fd, NULL) && fails(LOCK)) {
        errno = error_number;
        return -1;
    }
    return next(fd, operation);
}

CALL_NULL(DIR *, opendir, LIST, (-1, path), (const char *path), (path))
CALL_NULL(DIR *, fdopendir, LIST, (fd, NULL), (int fd), (fd))

CALL_NULL(FILE *, fopen, OPEN, (-1, path), (const char *path, const char *mode), (path, mode))
CALL_NULL(FILE *, fopen64, OPEN, (-1, path), (const char *path, const char *mode), (path, mode))

CALL(void *, mmap, MAP, (fd, NULL),
     (void *at, size_t length, int protection, int flags, int fd, off_t offset),
     (at, length, protection, flags, fd, offset))
CALL(void *, mmap64, MAP, (fd, NULL),
     (void *at, size_t length, int protection, int flags, int fd, off64_t offset),
     (at, length, protection, flags, fd, offset))

/* Opening: the rights follow only when a file may be made. */
#define RIGHTS(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); \
    }
#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(name); \
        RIGHTS(flags) \
        if (armed && is_ours(-1, path) && fails(OPEN)) { errno = error_number; return -1; } \
        return next(path, flags, mode); \
    }
#define OPENING_AT(name) \
    int name(int fd, const char *path, int flags, ...) { \
        NEXT(name); \
        RIGHTS(flags) \
        if (armed && is_ours(fd, path) && fails(OPEN)) { errno = error_number; return -1; } \
        return next(fd, path, flags, mode); \
    }
OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)
CALL(int, creat, OPEN, (-1, path), (const char *path, mode_t mode), (path, mode))
CALL(int, creat64, OPEN, (-1, path), (const char *path, mode_t mode), (path, mode))
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int fd, const char *path, int flags) { return openat(fd, path, flags); }
int __openat64_2(int fd, const char *path, int flags) { return openat64(fd, path, flags); }

/* Record locks. */
#define LOCKING(name) \
    int name(int fd, int command, ...) { \
        NEXT(name); \
        va_list more; va_start(more, command); void *argument = va_arg(more, void *); va_end(more); \
        int locks = (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK) && \
                    ((struct flock *)argument)->l_type != F_UNLCK; \
        if (locks && armed && is_ours(fd, NULL) && fails(LOCK)) { errno = error_number; return -1; } \
        return next(fd, command, argument); \
    }
LOCKING(fcntl)
LOCKING(fcntl64)

/* Looking at what a path is. */
CALL(int, stat, LOOK, (-1, path), (const char *path, struct stat *found), (path, found))
CALL(int, stat64, LOOK, (-1, path), (const char *path, struct stat64 *found), (path, found))
CALL(int, lstat, LOOK, (-1, path), (const char *path, struct stat *found), (path, found))
CALL(int, lstat64, LOOK, (-1, path), (const char *path, struct stat64 *found), (path, found))
CALL(int, fstat, LOOK, (fd, NULL), (int fd, struct stat *found), (fd, found))
CALL(int, fstat64, LOOK, (fd, NULL), (int fd, struct stat64 *found), (fd, found))
CALL(int, fstatat, LOOK, (fd, path),
     (int fd, const char *path, struct stat *found, int flags), (fd, path, found, flags))
CALL(int, fstatat64, LOOK, (fd, path),
     (int fd, const char *path, struct stat64 *found, int flags), (fd, path, found, flags))
int __xstat(int version, const char *path, struct stat *found) { return stat(path, found); }
int __xstat64(int version, const char *path, struct stat64 *found) { return stat64(path, found); }
int __lxstat(int version, const char *path, struct stat *found) { return lstat(path, found); }
int __fxstat(int version, int fd, struct stat *found) { return fstat(fd, found); }
int __fxstat64(int version, int fd, struct stat64 *found) { return fstat64(fd, found); }
CALL(int, access, LOOK, (-1, path), (const char *path, int mode), (path, mode))
