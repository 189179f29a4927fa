// Counts the operations of a process on the files of one folder, records them, and lets some of them fail.
//
// The library is loaded before the C library (LD_PRELOAD), so that Python, SQLite and torch call it. Operations are
// counted one at a time, in the order in which they take effect. Reads are not counted. What a process writes through
// a mapping is not seen: of this service that is only SQLite's index of the write-ahead log (-shm), which SQLite makes
// again at each start.
//
// The record is a sequence of entries: a line "KIND FD FIRST SECOND PATH_BYTES TARGET_BYTES DATA_BYTES", then the path,
// the second path and the data. An operation that fails by itself, such as the opening of a missing file, is an "x".

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kMaxFiles = 1 << 16;

std::recursive_mutex mutex;
std::string folder;       // the watched folder; empty while nothing is watched
int record_fd = -1;       // where operations are recorded; -1 for nowhere
long num_operations = 0;  // counted since the start
long first_failure = 0;   // the first operation that fails, counted from 1; 0 for none
long last_failure = 0;    // the last one
int failure = 0;          // errno of the failing operations
long num_failures = 0;
bool is_watched[kMaxFiles];

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

#define REAL(name) static const auto next = real<decltype(&name)>(#name)

// The absolute path, or an empty string if it is not in the watched folder.
std::string watched_path(int directory, const char* path) {
  if (folder.empty() || path == nullptr) return {};
  std::string whole = path;
  if (path[0] != '/') {
    char parent[PATH_MAX];
    if (directory == AT_FDCWD) {
      if (getcwd(parent, sizeof parent) == nullptr) return {};
    } else {
      const std::string link = "/proc/self/fd/" + std::to_string(directory);
      const ssize_t length = readlink(link.c_str(), parent, sizeof parent - 1);
      if (length < 0) return {};
      parent[length] = 0;
    }
    whole = std::string(parent) + "/" + path;
  }
  if (whole.size() > folder.size() && whole.back() == '/') whole.pop_back();
  const bool is_inside = whole.compare(0, folder.size(), folder) == 0 &&
                         (whole.size() == folder.size() || whole[folder.size()] == '/');
  return is_inside ? whole : std::string();
}

bool watches(int fd) { return !folder.empty() && fd >= 0 && fd < kMaxFiles && is_watched[fd]; }

void write_all(const void* data, size_t size) {
  const char* begin = static_cast<const char*>(data);
  while (size > 0) {
    const long written = syscall(SYS_write, record_fd, begin, size);
    if (written <= 0) abort();
    begin += written;
    size -= written;
  }
}

void record(char kind, int fd, long first, long second, const std::string& path = {}, const std::string& target = {},
            const void* data = nullptr, size_t size = 0) {
  if (record_fd < 0) return;
  const int error = errno;  // of the operation
  char line[160];
  const int length = snprintf(line, sizeof line, "%c %d %ld %ld %zu %zu %zu\n", kind, fd, first, second, path.size(),
                              target.size(), size);
  write_all(line, length);
  write_all(path.data(), path.size());
  write_all(target.data(), target.size());
  write_all(data, size);
  errno = error;
}

// Counts an operation; returns whether it must fail, with errno set. A full disk (ENOSPC) fails only what needs room.
bool fails(bool needs_room) {
  num_operations++;
  if (num_operations < first_failure || num_operations > last_failure || first_failure == 0) return false;
  if (failure == ENOSPC && !needs_room) return false;
  num_failures++;
  errno = failure;
  return true;
}

// Of the first write to a full disk, a half is written, as the kernel does.
bool is_first_of_full() { return failure == ENOSPC && num_failures == 1 && last_failure > first_failure; }

int opened(int fd, const std::string& path, int flags) {
  if (fd >= 0 && fd < kMaxFiles) is_watched[fd] = !path.empty();
  if (!path.empty()) record(fd >= 0 ? 'o' : 'x', fd, flags, 0, path);
  return fd;
}

template <typename Open>
int open_watched(int directory, const char* path, int flags, Open open_it) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  const std::string whole = watched_path(directory, path);
  if (!whole.empty()) {
    struct stat status;
    const bool creates = (flags & O_CREAT) != 0 && lstat(whole.c_str(), &status) != 0;
    if (fails(creates)) return -1;
  }
  return opened(open_it(), whole, flags);
}

// Writes pieces at an offset, or at the position of the file if the offset is -1.
ssize_t write_watched(int fd, const struct iovec* pieces, int num_pieces, off_t offset) {
  static const auto write_at = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite64");
  static const auto write_here = real<ssize_t (*)(int, const void*, size_t)>("write");
  std::string data;
  for (int i = 0; i < num_pieces; i++) data.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (fails(true)) {
    if (!is_first_of_full() || data.size() < 2) return -1;
    data.resize(data.size() / 2);
  }
  off_t begin = offset;
  if (offset < 0) {
    struct stat status;
    const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
    begin = appends && fstat(fd, &status) == 0 ? status.st_size : lseek(fd, 0, SEEK_CUR);
  }
  const ssize_t written =
      offset < 0 ? write_here(fd, data.data(), data.size()) : write_at(fd, data.data(), data.size(), offset);
  if (written > 0) {
    record('w', fd, begin, written, {}, {}, data.data(), written);
  } else {
    record('x', fd, begin, 0);
  }
  return written;
}

template <typename Call>
int change_file(int fd, char kind, long first, long second, bool needs_room, Call call) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (fails(needs_room)) return kind == 'a' ? errno : -1;
  const int result = call();
  record(result == 0 ? kind : 'x', fd, first, second);
  return result;
}

template <typename Call>
int change_name(char kind, const std::string& path, const std::string& target, bool needs_room, Call call) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (path.empty() && target.empty()) return call();
  if (fails(needs_room)) return -1;
  const int result = call();
  record(result == 0 ? kind : 'x', -1, 0, 0, path, target);
  return result;
}

void forget(int fd) {
  if (fd < 0 || fd >= kMaxFiles || !is_watched[fd]) return;
  is_watched[fd] = false;
  if (!folder.empty()) record('c', fd, 0, 0);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

// Watches a folder. Operations from `first` to `last` (counted from 1) fail with `error`; none if `first` is 0.
void faults_start(const char* path, int record_to, long first, long last, int error) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  memset(is_watched, 0, sizeof is_watched);
  folder = path;
  record_fd = record_to;
  num_operations = num_failures = 0;
  first_failure = first;
  last_failure = last;
  failure = error;
}

// Operations no longer fail.
void faults_heal() {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  first_failure = 0;
}

// Records a note of the scenario.
void faults_note(const char* text, size_t size) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (!folder.empty()) record('n', -1, 0, 0, {}, {}, text, size);
}

// Watches nothing any more; returns the number of operations.
long faults_stop() {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  folder.clear();
  record_fd = -1;
  first_failure = 0;
  return num_operations;
}

long faults_failures() { return num_failures; }

#define OPENS(name)                                                                   \
  int name(const char* path, int flags, ...) {                                        \
    REAL(name);                                                                       \
    va_list arguments;                                                                \
    va_start(arguments, flags);                                                       \
    const mode_t mode = mode_of(flags, arguments);                                    \
    va_end(arguments);                                                                \
    return open_watched(AT_FDCWD, path, flags, [&] { return next(path, flags, mode); }); \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                          \
  int name(int directory, const char* path, int flags, ...) {                                   \
    REAL(name);                                                                                 \
    va_list arguments;                                                                          \
    va_start(arguments, flags);                                                                 \
    const mode_t mode = mode_of(flags, arguments);                                              \
    va_end(arguments);                                                                          \
    return open_watched(directory, path, flags, [&] { return next(directory, path, flags, mode); }); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

#define OPENS_STREAM(name)                                                                    \
  FILE* name(const char* path, const char* mode) {                                            \
    REAL(name);                                                                               \
    const int flags = mode[0] == 'r' ? O_RDONLY : mode[0] == 'w' ? O_CREAT | O_TRUNC | O_WRONLY : O_CREAT | O_WRONLY; \
    FILE* stream = nullptr;                                                                   \
    open_watched(AT_FDCWD, path, flags, [&] {                                                 \
      stream = next(path, mode);                                                              \
      return stream == nullptr ? -1 : fileno(stream);                                         \
    });                                                                                       \
    return stream;                                                                            \
  }
OPENS_STREAM(fopen)
OPENS_STREAM(fopen64)

int close(int fd) {
  REAL(close);
  std::lock_guard<std::recursive_mutex> lock(mutex);
  forget(fd);
  return next(fd);
}

int fclose(FILE* stream) {
  REAL(fclose);
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (stream != nullptr) forget(fileno(stream));
  return next(stream);
}

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  if (!watches(fd)) return next(fd, data, size);
  const struct iovec piece = {const_cast<void*>(data), size};
  return write_watched(fd, &piece, 1, -1);
}

ssize_t writev(int fd, const struct iovec* pieces, int num_pieces) {
  REAL(writev);
  return watches(fd) ? write_watched(fd, pieces, num_pieces, -1) : next(fd, pieces, num_pieces);
}

#define WRITES_AT(name)                                                      \
  ssize_t name(int fd, const void* data, size_t size, off_t offset) {        \
    REAL(name);                                                              \
    if (!watches(fd)) return next(fd, data, size, offset);                   \
    const struct iovec piece = {const_cast<void*>(data), size};              \
    return write_watched(fd, &piece, 1, offset);                             \
  }
WRITES_AT(pwrite)
WRITES_AT(pwrite64)

// Copies by the kernel are made by reads and writes, which are counted and recorded.
#define SENDS(name)                                                          \
  ssize_t name(int to, int from, off_t* offset, size_t size) {               \
    REAL(name);                                                              \
    if (!watches(to)) return next(to, from, offset, size);                   \
    errno = EINVAL;                                                          \
    return -1;                                                               \
  }
SENDS(sendfile)
SENDS(sendfile64)

ssize_t copy_file_range(int from, off64_t* begin, int to, off64_t* target, size_t size, unsigned flags) {
  REAL(copy_file_range);
  if (!watches(to)) return next(from, begin, to, target, size, flags);
  errno = EXDEV;
  return -1;
}

#define TRUNCATES(name)                                                                                     \
  int name(int fd, off_t size) {                                                                            \
    REAL(name);                                                                                             \
    return watches(fd) ? change_file(fd, 't', size, 0, false, [&] { return next(fd, size); }) : next(fd, size); \
  }
TRUNCATES(ftruncate)
TRUNCATES(ftruncate64)

#define RESERVES(name)                                                                            \
  int name(int fd, off_t offset, off_t size) {                                                    \
    REAL(name);                                                                                   \
    if (!watches(fd)) return next(fd, offset, size);                                              \
    return change_file(fd, 'a', offset, size, true, [&] { return next(fd, offset, size); });      \
  }
RESERVES(posix_fallocate)
RESERVES(posix_fallocate64)

#define SYNCS(name)                                                                                   \
  int name(int fd) {                                                                                  \
    REAL(name);                                                                                       \
    return watches(fd) ? change_file(fd, 'f', 0, 0, true, [&] { return next(fd); }) : next(fd);       \
  }
SYNCS(fsync)
SYNCS(fdatasync)

int rename(const char* path, const char* target) {
  REAL(rename);
  return change_name('r', watched_path(AT_FDCWD, path), watched_path(AT_FDCWD, target), true,
                     [&] { return next(path, target); });
}

int renameat(int directory, const char* path, int other, const char* target) {
  REAL(renameat);
  return change_name('r', watched_path(directory, path), watched_path(other, target), true,
                     [&] { return next(directory, path, other, target); });
}

int unlink(const char* path) {
  REAL(unlink);
  return change_name('u', watched_path(AT_FDCWD, path), {}, false, [&] { return next(path); });
}

int unlinkat(int directory, const char* path, int flags) {
  REAL(unlinkat);
  return change_name('u', watched_path(directory, path), {}, false, [&] { return next(directory, path, flags); });
}

int rmdir(const char* path) {
  REAL(rmdir);
  return change_name('u', watched_path(AT_FDCWD, path), {}, false, [&] { return next(path); });
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  std::lock_guard<std::recursive_mutex> lock(mutex);
  struct stat status;
  const std::string whole = watched_path(AT_FDCWD, path);
  if (whole.empty() || stat(path, &status) == 0) return next(path, mode);  // the latter fails by itself
  return change_name('m', whole, {}, true, [&] { return next(path, mode); });
}

int mkdirat(int directory, const char* path, mode_t mode) {
  REAL(mkdirat);
  return change_name('m', watched_path(directory, path), {}, true, [&] { return next(directory, path, mode); });
}

}  // extern "C"
