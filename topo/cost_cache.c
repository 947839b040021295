/*
 * The file is read as a whole and written aside and renamed, so whoever reads it at the same time
 * sees all of it or nothing. Of two processes that save at once, one may undo the other's addition:
 * it is measured again.
 */
#include "topo/cost_cache.h"

#include <coll.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/processor.h"
#include "base/words.h"

#define FORMAT 10
#define NAME_BYTES 32
#define KEY_BYTES 512
#define PATH_BYTES 1024
#define FILE_BYTES (KEY_BYTES + TOPO_COST_CACHE_MAX * (NAME_BYTES + 24))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD "sanitized"
#elif defined(__OPTIMIZE__)
#define BUILD "optimized"
#else
#define BUILD "plain"
#endif

/* ---- what the figures hold for --------------------------------------------------------------*/

/* The first lines of the file. */
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
  snprintf(path + length, PATH_BYTES - length, "/machine-%016" PRIx64,
           base_words_hash(BASE_WORDS_HASH_OF_NOTHING, key));
  return true;
}

/* ---- the figures ----------------------------------------------------------------------------*/

typedef struct figure {
  char name[NAME_BYTES];
  int64_t value;
} figure_t;

typedef struct kept {
  char key[KEY_BYTES], path[PATH_BYTES];
  bool has_path;
  figure_t figures[TOPO_COST_CACHE_MAX];
  size_t count;
} kept_t;

/* "name value", the line's end already cut off. */
static bool parse_line(char *line, figure_t *figure) {
  char *space = strchr(line, ' ');
  if (space == NULL || space == line || space - line >= NAME_BYTES) return false;
  *space = '\0';
  snprintf(figure->name, sizeof figure->name, "%s", line);
  return base_words_integer(space + 1, 0, INT64_MAX, &figure->value);
}

/* False, and nothing kept, unless every line is as it was written. */
static bool parse(char *text, kept_t *kept) {
  size_t length = strlen(kept->key);
  if (strncmp(text, kept->key, length) != 0) return false;
  for (char *line = text + length; *line != '\0';) {
    char *end = strchr(line, '\n');
    if (end == NULL || kept->count == TOPO_COST_CACHE_MAX) return false;
    *end = '\0';
    if (!parse_line(line, &kept->figures[kept->count++])) return false;
    line = end + 1;
  }
  return true;
}

static void open_kept(const char *variant, kept_t *kept) {
  char text[FILE_BYTES];
  kept->count = 0;
  write_key(variant, kept->key);
  kept->has_path = find_file(kept->key, kept->path);
  if (!kept->has_path) return;
  int file = open(kept->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return;
  text[length] = '\0';
  if (strlen(text) != (size_t)length || !parse(text, kept)) kept->count = 0;
}

static figure_t *find(kept_t *kept, const char *name) {
  for (size_t i = 0; i < kept->count; i++) {
    if (strcmp(kept->figures[i].name, name) == 0) return &kept->figures[i];
  }
  return NULL;
}

bool topo_cost_cache_load(const char *variant, const char *const names[], size_t count,
                    int64_t values[]) {
  kept_t kept;
  open_kept(variant, &kept);
  for (size_t i = 0; i < count; i++) {
    if (find(&kept, names[i]) == NULL) return false;
  }
  for (size_t i = 0; i < count; i++) values[i] = find(&kept, names[i])->value;
  return true;
}

static void write_file(const kept_t *kept) {
  char aside[PATH_BYTES + 32], text[FILE_BYTES];
  size_t length = (size_t)snprintf(text, sizeof text, "%s", kept->key);
  for (size_t i = 0; i < kept->count; i++) {
    length += (size_t)snprintf(text + length, sizeof text - length, "%s %" PRId64 "\n",
                               kept->figures[i].name, kept->figures[i].value);
  }
  snprintf(aside, sizeof aside, "%s.%ld", kept->path, (long)getpid());
  int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  bool written = write(file, text, length) == (ssize_t)length;
  if (close(file) != 0 || !written || rename(aside, kept->path) != 0) unlink(aside);
}

void topo_cost_cache_save(const char *variant, const char *const names[], size_t count,
                    const int64_t values[]) {
  kept_t kept;
  open_kept(variant, &kept);
  if (!kept.has_path) return;
  for (size_t i = 0; i < count; i++) {
    figure_t *figure = find(&kept, names[i]);
    if (figure == NULL) {
      if (kept.count == TOPO_COST_CACHE_MAX) return;
      figure = &kept.figures[kept.count++];
      snprintf(figure->name, sizeof figure->name, "%s", names[i]);
    }
    figure->value = values[i];
  }
  write_file(&kept);
}
