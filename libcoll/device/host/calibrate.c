/*
 * From which size streaming pays. Both ways of copying take turns on one pair of buffers, from
 * large to small; buffers that are used again and again are as warm as they can be, so what
 * streaming wins there it wins anywhere. The fastest of a few turns counts: that is what the memory
 * does when nobody else wants the processor.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/words.h"
#include "device/host/host.h"
#include "topo/machine.h"

#define LEAST_BYTES ((size_t)1 << 20) /* what is smaller is never asked about */
#define MOST_BYTES ((size_t)16 << 20)
#define TURNS 5
#define BUDGET_NS 40000000

/* ---- measuring ------------------------------------------------------------------------------*/

typedef struct bench {
  char *dst, *src;
  host_stream_t stream;
} bench_t;

static uint64_t time_of(const bench_t *bench, size_t bytes, bool streamed) {
  uint64_t start = base_clock_now_ns();
  if (streamed) {
    bench->stream(bench->dst, bench->src, bytes);
  } else {
    memcpy(bench->dst, bench->src, bytes);
  }
  return base_clock_now_ns() - start;
}

static bool stream_wins(const bench_t *bench, size_t bytes) {
  uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
  for (int turn = 0; turn < TURNS; turn++) {
    for (int streamed = 0; streamed < 2; streamed++) {
      uint64_t took = time_of(bench, bytes, streamed);
      if (took < best[streamed]) best[streamed] = took;
    }
  }
  return best[1] < best[0];
}

/* Where no size that was tried shows it: past the last cache all must leave for memory anyway. */
static size_t beyond_cache(void) {
  topo_machine_t *machine;
  size_t last = 0;
  if (topo_machine_create(&machine) == COLL_OK) {
    last = topo_machine_facts(machine).l3_bytes;
    topo_machine_destroy(machine);
  }
  return last > MOST_BYTES ? last : 2 * MOST_BYTES;
}

/* What the others let this thread have of the processor does not count. */
static int64_t own_time_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* False when there is no memory to measure with. */
static bool measure(host_stream_t stream, size_t *least) {
  char *memory =
      mmap(NULL, 2 * MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  int64_t start = own_time_ns();
  madvise(memory, 2 * MOST_BYTES, MADV_HUGEPAGE);
  memset(memory, 1, 2 * MOST_BYTES);
  const bench_t bench = {memory, memory + MOST_BYTES, stream};
  *least = beyond_cache();
  for (size_t bytes = MOST_BYTES; bytes >= LEAST_BYTES && stream_wins(&bench, bytes); bytes /= 2) {
    *least = bytes;
    if (own_time_ns() - start > BUDGET_NS) break;
  }
  munmap(memory, 2 * MOST_BYTES);
  return true;
}

/* ---- the file -------------------------------------------------------------------------------*/

#define KEY_BYTES 256
#define PATH_BYTES 1024

static void processor_name(char *name, size_t bytes) {
  snprintf(name, bytes, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return;
  char line[KEY_BYTES];
  while (fgets(line, sizeof line, file) != NULL) {
    char *colon = strchr(line, ':');
    bool named = strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0;
    if (!named || colon == NULL) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(name, bytes, "%s", colon + 1 + strspn(colon + 1, " "));
    break;
  }
  fclose(file);
}

/* All that the result depends on; the file begins with it. */
static void write_key(const char *isa, char key[KEY_BYTES]) {
  char name[128];
  processor_name(name, sizeof name);
  snprintf(key, KEY_BYTES, "libcoll streaming 1\nprocessor %s\ncaches %ld %ld %ld\nisa %s\nbytes ",
           name, sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE),
           sysconf(_SC_LEVEL3_CACHE_SIZE), isa);
}

static uint64_t text_hash(const char *text) { /* FNV-1a */
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

/* The user's folder for what can be measured again; made when it is missing. */
static bool find_folder(char path[PATH_BYTES]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length;
  if (cache != NULL && cache[0] == '/') {
    length = snprintf(path, PATH_BYTES, "%s", cache);
  } else if (home != NULL && home[0] == '/') {
    length = snprintf(path, PATH_BYTES, "%s/.cache", home);
  } else {
    return false;
  }
  if (length + 64 >= PATH_BYTES) return false;
  mkdir(path, 0700);
  snprintf(path + length, (size_t)(PATH_BYTES - length), "/libcoll");
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool find_file(const char *key, char path[PATH_BYTES]) {
  if (!find_folder(path)) return false;
  size_t length = strlen(path);
  snprintf(path + length, PATH_BYTES - length, "/streaming-%016llx",
           (unsigned long long)text_hash(key));
  return true;
}

static bool load(const char *path, const char *key, size_t *bytes) {
  char text[KEY_BYTES + 32];
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0 || text[length - 1] != '\n') return false;
  text[length - 1] = '\0';
  int64_t value;
  if (strncmp(text, key, strlen(key)) != 0) return false;
  if (!base_words_integer(text + strlen(key), (int64_t)LEAST_BYTES, INT64_MAX, &value))
    return false;
  *bytes = (size_t)value;
  return true;
}

/* Written aside and renamed: who reads it at the same time sees all of it or nothing. */
static void save(const char *path, const char *key, size_t bytes) {
  char aside[PATH_BYTES + 32], text[KEY_BYTES + 32];
  snprintf(aside, sizeof aside, "%s.%ld", path, (long)getpid());
  int length = snprintf(text, sizeof text, "%s%zu\n", key, bytes);
  int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  bool written = write(file, text, (size_t)length) == length;
  if (close(file) != 0 || !written || rename(aside, path) != 0) unlink(aside);
}

size_t host_stream_calibrate(const char *isa, host_stream_t stream) {
  char key[KEY_BYTES], path[PATH_BYTES];
  size_t bytes;
  write_key(isa, key);
  bool has_path = find_file(key, path);
  if (has_path && load(path, key, &bytes)) return bytes;
  if (!measure(stream, &bytes)) return beyond_cache();
  if (has_path) save(path, key, bytes);
  return bytes;
}

/* ---- what the tables ask --------------------------------------------------------------------*/

static atomic_size_t set_bytes, found_bytes; /* 0: not set, not yet looked for */
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

void host_stream_set(size_t bytes) {
  atomic_store_explicit(&set_bytes, bytes, memory_order_relaxed);
}

bool host_stream_pays(size_t bytes, const char *isa, host_stream_t stream) {
  size_t least = atomic_load_explicit(&set_bytes, memory_order_relaxed);
  if (least > 0) return bytes >= least;
  if (bytes < LEAST_BYTES) return false;
  least = atomic_load_explicit(&found_bytes, memory_order_relaxed);
  if (least == 0) {
    pthread_mutex_lock(&finding);
    least = atomic_load_explicit(&found_bytes, memory_order_relaxed);
    if (least == 0) least = host_stream_calibrate(isa, stream);
    atomic_store_explicit(&found_bytes, least, memory_order_relaxed);
    pthread_mutex_unlock(&finding);
  }
  return bytes >= least;
}
