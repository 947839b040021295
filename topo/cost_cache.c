/* The file is read as a whole and replaced as a whole. If two processes save at the same time, one
 * may undo the other's addition, which is then measured again. */
#include "topo/cost_cache.h"

#include <coll.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cache_file.h"
#include "base/processor.h"
#include "base/text.h"

#define FORMAT 11
#define NAME_BYTES 32
#define KEY_BYTES 512
#define FILE_BYTES (KEY_BYTES + TOPO_COST_CACHE_MAX * (NAME_BYTES + 24))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD "sanitized"
#elif defined(__OPTIMIZE__)
#define BUILD "optimized"
#else
#define BUILD "plain"
#endif

/* ---- the key --------------------------------------------------------------------------------*/

/* Writes the first lines of the file, which identify what the values hold for. */
static void write_key(const char *variant, char key[KEY_BYTES]) {
  char name[128];
  base_processor_name(name, sizeof name);
  snprintf(key, KEY_BYTES,
           "libcoll %d.%d.%d, %s build, figures %d\nprocessor %s\ncores %ld\ncaches %ld %ld %ld\n"
           "variant %.64s\n",
           COLL_VERSION_MAJOR, COLL_VERSION_MINOR, COLL_VERSION_PATCH, BUILD, FORMAT, name,
           sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_LEVEL1_DCACHE_SIZE),
           sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE), variant);
}

static bool find_file(const char *key, char path[BASE_CACHE_PATH_BYTES]) {
  char name[32];
  snprintf(name, sizeof name, "machine-%016" PRIx64,
           base_text_hash(BASE_TEXT_HASH_OF_NOTHING, key));
  return base_cache_file(name, path);
}

/* ---- entries --------------------------------------------------------------------------------*/

typedef struct entry {
  char name[NAME_BYTES];
  int64_t value;
} entry_t;

typedef struct cache {
  char key[KEY_BYTES], path[BASE_CACHE_PATH_BYTES];
  bool has_path;
  entry_t entries[TOPO_COST_CACHE_MAX];
  size_t count;
} cache_t;

/* "name value", without the end of the line. */
static bool parse_line(char *line, entry_t *entry) {
  char *space = strchr(line, ' ');
  if (space == NULL || space == line || space - line >= NAME_BYTES) return false;
  *space = '\0';
  snprintf(entry->name, sizeof entry->name, "%s", line);
  return base_text_integer(space + 1, 0, INT64_MAX, &entry->value);
}

/* False if a line is damaged. */
static bool parse(char *text, cache_t *cache) {
  size_t length = strlen(cache->key);
  if (strncmp(text, cache->key, length) != 0) return false;
  for (char *line = text + length; *line != '\0';) {
    char *end = strchr(line, '\n');
    if (end == NULL || cache->count == TOPO_COST_CACHE_MAX) return false;
    *end = '\0';
    if (!parse_line(line, &cache->entries[cache->count++])) return false;
    line = end + 1;
  }
  return true;
}

static void read_cache(const char *variant, cache_t *cache) {
  char text[FILE_BYTES];
  cache->count = 0;
  write_key(variant, cache->key);
  cache->has_path = find_file(cache->key, cache->path);
  if (!cache->has_path) return;
  int file = open(cache->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return;
  text[length] = '\0';
  if (strlen(text) != (size_t)length || !parse(text, cache)) cache->count = 0;
}

static entry_t *find(cache_t *cache, const char *name) {
  for (size_t i = 0; i < cache->count; i++) {
    if (strcmp(cache->entries[i].name, name) == 0) return &cache->entries[i];
  }
  return NULL;
}

bool topo_cost_cache_load(const char *variant, const char *const names[], size_t count,
                          int64_t values[]) {
  cache_t cache;
  read_cache(variant, &cache);
  for (size_t i = 0; i < count; i++) {
    if (find(&cache, names[i]) == NULL) return false;
  }
  for (size_t i = 0; i < count; i++) values[i] = find(&cache, names[i])->value;
  return true;
}

static void write_file(const cache_t *cache) {
  char text[FILE_BYTES];
  size_t length = (size_t)snprintf(text, sizeof text, "%s", cache->key);
  for (size_t i = 0; i < cache->count; i++) {
    length += (size_t)snprintf(text + length, sizeof text - length, "%s %" PRId64 "\n",
                               cache->entries[i].name, cache->entries[i].value);
  }
  base_cache_write(cache->path, text, length);
}

static void drop_first(cache_t *cache) {
  cache->count--;
  memmove(cache->entries, cache->entries + 1, cache->count * sizeof *cache->entries);
}

void topo_cost_cache_save(const char *variant, const char *const names[], size_t count,
                          const int64_t values[]) {
  cache_t cache;
  read_cache(variant, &cache);
  if (!cache.has_path) return;
  for (size_t i = 0; i < count; i++) {
    entry_t *entry = find(&cache, names[i]);
    if (entry == NULL) {
      if (cache.count == TOPO_COST_CACHE_MAX) drop_first(&cache);
      entry = &cache.entries[cache.count++];
      snprintf(entry->name, sizeof entry->name, "%s", names[i]);
    }
    entry->value = values[i];
  }
  write_file(&cache);
}
