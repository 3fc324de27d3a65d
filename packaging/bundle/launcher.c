/* The first program of rmqtool in one file, and the program by which its Python is started.
 *
 * Static, so that it runs where nothing is: no C library, no shell. With a payload at its end it is
 * the one file: it unpacks the payload once, to a directory of the user's own that is named after
 * the payload, and starts rmqtool there. Without one it is bin/python3 of what was unpacked, and
 * starts the interpreter with the loader and the C library that lie beside it.
 *
 * The end of the one file: payload (a tar by zstd), then TRAILER bytes: "rmqtool1", the sizes of
 * the payload and of what it unpacks to (16 hexadecimal digits each), its name (32 digits).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#define MAGIC "rmqtool1"
#define NAME 32
#define TRAILER (8 + 16 + 16 + NAME)
#define BLOCK 512
#define MOST_PLACES 8
#define LOADER "lib/ld.so"

static char self[PATH_MAX];       /* this program */
static char reasons[8 * PATH_MAX]; /* why each place does not serve */

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("rmqtool: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(2);
}

static char *joined(const char *first, const char *second) {
    char *made;
    if (asprintf(&made, "%s/%s", first, second) < 0)
        fail("no memory");
    return made;
}

static char *directory_of(const char *path) {
    char *made = strdup(path);
    if (!made)
        fail("no memory");
    *strrchr(made, '/') = 0;
    return made[0] ? made : strcpy(made, "/");
}

/* Run the interpreter of an unpacked tree, with arguments in front of those of the user. */
static void start(const char *tree, const char *const *first, char **rest) {
    size_t count = 0, known = 0;
    while (first[known])
        known++;
    while (rest[count])
        count++;
    char **words = calloc(known + count + 9, sizeof *words);
    char *loader = joined(tree, LOADER);
    if (!words)
        fail("no memory");
    size_t at = 0;
    words[at++] = loader;
    words[at++] = "--inhibit-cache";
    words[at++] = "--library-path";
    words[at++] = joined(tree, "lib");
    words[at++] = "--argv0";
    words[at++] = joined(tree, "bin/python3");
    words[at++] = joined(tree, "bin/python");
    for (size_t i = 0; i < known; i++)
        words[at++] = (char *)first[i];
    for (size_t i = 0; i < count; i++)
        words[at++] = rest[i];
    execv(loader, words);
    fail("%s cannot be started: %s", loader, strerror(errno));
}

/* ---- the payload ---------------------------------------------------------------------------- */

struct reader {
    int file;
    unsigned long long left; /* of the payload */
    ZSTD_DStream *stream;
    ZSTD_inBuffer in;
    char raw[1 << 17];
};

/* Give the next bytes; or, of fewer, how many there are before the end, whose checksum is right. */
static size_t taken(struct reader *from, char *into, size_t size) {
    ZSTD_outBuffer out = {into, size, 0};
    while (out.pos < out.size) {
        if (from->in.pos == from->in.size && from->left) {
            size_t wanted = from->left < sizeof from->raw ? from->left : sizeof from->raw;
            ssize_t got = read(from->file, from->raw, wanted);
            if (got <= 0)
                fail("%s cannot be read", self);
            from->left -= got;
            from->in = (ZSTD_inBuffer){from->raw, got, 0};
        }
        size_t before = out.pos, used = from->in.pos;
        size_t status = ZSTD_decompressStream(from->stream, &out, &from->in);
        if (ZSTD_isError(status) || (out.pos == before && from->in.pos == used && !from->left))
            fail("%s is damaged: copy it again", self);
        if (!status)
            break;
    }
    return out.pos;
}

static void take(struct reader *from, char *into, size_t size) {
    if (taken(from, into, size) < size)
        fail("%s is damaged: copy it again", self);
}

static unsigned long long number(const char *text, int digits, int base) {
    char copy[24] = {0};
    memcpy(copy, text, digits);
    return strtoull(copy, NULL, base);
}

/* Write what the payload holds below a directory that is empty and our own. */
static void unpack(struct reader *from, int place, const char *where) {
    static char block[1 << 20];
    for (;;) {
        take(from, block, BLOCK);
        if (!block[0])
            break;
        char name[260], link[101] = {0};
        snprintf(name, sizeof name, "%.155s%s%.100s", block + 345, block[345] ? "/" : "", block);
        memcpy(link, block + 157, 100);
        unsigned long long size = number(block + 124, 12, 8);
        mode_t mode = number(block + 100, 8, 8) & 0755;
        char type = block[156];
        if (type == '5') {
            if (mkdirat(place, name, 0755) && errno != EEXIST)
                fail("%s/%s: %s", where, name, strerror(errno));
        } else if (type == '2') {
            if (symlinkat(link, place, name))
                fail("%s/%s: %s", where, name, strerror(errno));
        } else {
            int file = openat(place, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
            if (file < 0)
                fail("%s/%s: %s", where, name, strerror(errno));
            while (size) {
                size_t part = size < sizeof block ? size : sizeof block;
                take(from, block, part);
                for (size_t done = 0; done < part;) {
                    ssize_t written = write(file, block + done, part - done);
                    if (written <= 0)
                        fail("%s/%s: %s", where, name, strerror(errno));
                    done += written;
                    size -= written;
                }
                if (!size && part % BLOCK)
                    take(from, block, BLOCK - part % BLOCK);
            }
            close(file);
        }
    }
    while (taken(from, block, sizeof block) == sizeof block)
        ;
}

/* ---- places --------------------------------------------------------------------------------- */

static void refuse(const char *place, const char *why) {
    size_t used = strlen(reasons);
    snprintf(reasons + used, sizeof reasons - used, "\n  %s: %s", place, why);
}

/* Open a place: a directory of this user's own, in which nobody else can write. */
static int opened(const char *place, int makes, int is_of_user) {
    if (makes && is_of_user) {
        char *above = directory_of(place);
        mkdir(above, 0700);
        free(above);
    }
    if (makes)
        mkdir(place, 0700);
    int found = open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat facts;
    struct statvfs system;
    if (found < 0) {
        if (makes)
            refuse(place, strerror(errno));
        return -1;
    }
    const char *why = NULL;
    if (fstat(found, &facts) || fstatvfs(found, &system))
        why = strerror(errno);
    else if (facts.st_uid != geteuid())
        why = "it belongs to another user";
    else if (facts.st_mode & 022)
        why = "other users may write there";
    else if (system.f_flag & ST_NOEXEC)
        why = "mounted noexec: no program may be started from there";
    if (!why)
        return found;
    if (makes)
        refuse(place, why);
    close(found);
    return -1;
}

static const char *why_not_unpacked(int place, unsigned long long size) {
    struct statvfs system;
    static char text[80];
    if (faccessat(place, ".", W_OK, AT_EACCESS))
        return strerror(errno);
    if (fstatvfs(place, &system))
        return strerror(errno);
    if ((unsigned long long)system.f_bavail * system.f_frsize < size) {
        snprintf(text, sizeof text, "not enough space: %llu MB are needed", size >> 20);
        return text;
    }
    if (flock(place, LOCK_SH | LOCK_NB) && errno != EWOULDBLOCK)
        return "directories cannot be locked there"; /* NFS */
    return NULL;
}

static int removed(const char *path, const struct stat *facts, int type, struct FTW *depth) {
    (void)facts, (void)type, (void)depth;
    return remove(path);
}

/* Remove what earlier versions and killed runs have left, unless a process is using it. */
static void sweep(int place, const char *where, const char *name) {
    DIR *listed = fdopendir(dup(place));
    struct dirent *one;
    while (listed && (one = readdir(listed))) {
        const char *is_ours = strstr(one->d_name, ".bundle");
        if (!is_ours || !strcmp(one->d_name, name))
            continue;
        int held = openat(place, one->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (held >= 0 && !flock(held, LOCK_EX | LOCK_NB)) {
            char *path = joined(where, one->d_name);
            nftw(path, removed, 32, FTW_DEPTH | FTW_PHYS);
            free(path);
        }
        if (held >= 0)
            close(held);
    }
    if (listed)
        closedir(listed);
}

/* Hold a tree, for as long as this process runs and whatever it becomes; 0 when it is not there. */
static int held(int place, const char *name) {
    int tree = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); /* goes through exec */
    if (tree < 0)
        return 0;
    flock(tree, LOCK_SH);
    struct stat facts;
    if (!fstatat(place, name, &facts, AT_SYMLINK_NOFOLLOW))
        return 1;
    close(tree); /* swept away meanwhile */
    return 0;
}

/* Unpack to a place, one process at a time: others wait, and find it done. */
static void put(struct reader *from, int place, const char *where, const char *name) {
    static const char staged[] = "new.bundle";
    if (flock(place, LOCK_EX))
        fail("%s: %s", where, strerror(errno));
    if (!faccessat(place, name, F_OK, AT_EACCESS))
        return;
    sweep(place, where, name);
    if (mkdirat(place, staged, 0700))
        fail("%s/%s: %s", where, staged, strerror(errno));
    int tree = openat(place, staged, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        fail("%s/%s: %s", where, staged, strerror(errno));
    if (isatty(2))
        fprintf(stderr, "rmqtool: unpacking to %s/%s, once\n", where, name);
    unpack(from, tree, where);
    syncfs(tree); /* a crash may not leave files without content under the right name */
    if (renameat(place, staged, place, name))
        fail("%s/%s: %s", where, name, strerror(errno));
    close(tree);
}

/* Give where to unpack to, the first choice first, and how many of them are of the user's own: the
 * directory above those is made, too. */
static int places(char **found, int *of_users) {
    int count = 0;
    const char *set = getenv("RMQTOOL_UNPACK");
    char *of_user;
    if (set && set[0] == '/') {
        found[count++] = strdup(set);
        *of_users = 0;
        return count;
    }
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        found[count++] = joined(cache, "rmqtool");
    if (home && home[0] == '/')
        found[count++] = joined(home, ".cache/rmqtool");
    *of_users = count;
    if (asprintf(&of_user, "rmqtool-%d", (int)geteuid()) < 0)
        fail("no memory");
    found[count++] = joined("/var/tmp", of_user);
    found[count++] = joined("/tmp", of_user);
    found[count++] = joined("/dev/shm", of_user);
    char *beside = directory_of(self);
    found[count++] = joined(beside, of_user);
    return count;
}

static void run_bundle(struct reader *from, unsigned long long size, const char *name, char **rest) {
    static const char *const first[] = {"-I", "-m", "rmqtool", NULL};
    char *found[MOST_PLACES];
    int of_users, count = places(found, &of_users);
    for (int makes = 0; makes < 2; makes++) { /* first where it is, then where it could be */
        for (int i = 0; i < count; i++) {
            int place = opened(found[i], makes, i < of_users);
            if (place < 0)
                continue;
            if (held(place, name))
                start(joined(found[i], name), first, rest);
            const char *why = makes ? why_not_unpacked(place, size) : NULL;
            if (why)
                refuse(found[i], why);
            if (makes && !why) {
                put(from, place, found[i], name);
                flock(place, LOCK_UN);
                if (held(place, name))
                    start(joined(found[i], name), first, rest);
            }
            close(place);
        }
    }
    fail("there is no directory to unpack to; set RMQTOOL_UNPACK to one of your own:%s", reasons);
}

int main(int count, char **words) {
    (void)count;
    const char *called = (const char *)getauxval(AT_EXECFN);
    if (!called || !realpath(called, self))
        fail("its own file cannot be found: start it by its path");
    static struct reader from;
    from.file = open(self, O_RDONLY | O_CLOEXEC);
    char end[TRAILER];
    off_t size = from.file < 0 ? -1 : lseek(from.file, 0, SEEK_END);
    int is_bundle = size > TRAILER && pread(from.file, end, TRAILER, size - TRAILER) == TRAILER &&
                    !memcmp(end, MAGIC, 8);
    if (!is_bundle) {
        static const char *const nothing[] = {NULL};
        char *directory = directory_of(self);
        start(directory_of(directory), nothing, words + 1);
    }
    char name[NAME + sizeof ".bundle"];
    snprintf(name, sizeof name, "%.*s.bundle", NAME, end + 40);
    from.left = number(end + 8, 16, 16);
    lseek(from.file, size - TRAILER - (off_t)from.left, SEEK_SET);
    from.stream = ZSTD_createDStream();
    ZSTD_DCtx_setParameter(from.stream, ZSTD_d_windowLogMax, 27);
    run_bundle(&from, number(end + 24, 16, 16), name, words + 1);
    return 2;
}
