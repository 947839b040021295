/*
 * One file for each processor and variant: a line with both, then a line "question = name rate" for
 * each choice. The lock is held on a separate file, because the file itself is replaced: it is
 * written under a temporary name and renamed, so that it is always complete.
 */
#include "libtrain/gemm/choice.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_file.h"
#include "base/processor.h"
#include "base/text.h"

#define FORMAT 1 /* of the file, and version of what is measured */
#define LINE_BYTES 512

/* Optimized and other builds measure different rates. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD "sanitized"
#elif defined(__OPTIMIZE__)
#define BUILD "optimized"
#else
#define BUILD "plain"
#endif

typedef struct choice_file {
  char key[LINE_BYTES]; /* the first line */
  char path[BASE_CACHE_PATH_BYTES];
} choice_file_t;

static bool find_file(const char *variant, choice_file_t *file) {
  char processor[128], name[32];
  base_processor_name(processor, sizeof processor);
  snprintf(file->key, sizeof file->key, "products %d, %s build, %s, %.250s\n", FORMAT, BUILD,
           processor, variant);
  snprintf(name, sizeof name, "gemm-%016" PRIx64,
           base_text_hash(BASE_TEXT_HASH_OF_NOTHING, file->key));
  return base_cache_file(name, file->path);
}

/* Waits for the lock, which closing the descriptor releases. -1 if the folder is not writable. */
static int lock(const choice_file_t *file) {
  char path[BASE_CACHE_PATH_BYTES + 8];
  snprintf(path, sizeof path, "%s.lock", file->path);
  int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return -1;
  int locked;
  do {
    locked = flock(descriptor, LOCK_EX);
  } while (locked != 0 && errno == EINTR);
  if (locked == 0) return descriptor;
  close(descriptor);
  return -1;
}

/* Parses "name rate\n". */
static bool parse(char *text, train_choice_t *choice) {
  char *space = strchr(text, ' '), *end = strchr(text, '\n');
  if (space == NULL || end == NULL || space == text || space - text >= TRAIN_CHOICE_BYTES) {
    return false;
  }
  *space = *end = '\0';
  snprintf(choice->name, sizeof choice->name, "%s", text);
  return base_text_number(space + 1, &choice->rate);
}

static bool has_key(FILE *stream, const char *key) {
  char line[LINE_BYTES];
  return fgets(line, sizeof line, stream) != NULL && strcmp(line, key) == 0;
}

static bool find(const choice_file_t *file, const char *question, train_choice_t *choice) {
  char line[LINE_BYTES], start[LINE_BYTES];
  bool found = false;
  FILE *stream = fopen(file->path, "re");
  if (stream == NULL) return false;
  int length = snprintf(start, sizeof start, "%s = ", question);
  if (has_key(stream, file->key)) {
    while (!found && fgets(line, sizeof line, stream) != NULL) {
      found = strncmp(line, start, (size_t)length) == 0 && parse(line + length, choice);
    }
  }
  fclose(stream);
  return found;
}

static void copy_lines(const choice_file_t *file, FILE *to) {
  char line[LINE_BYTES];
  FILE *stream = fopen(file->path, "re");
  if (stream == NULL) return;
  if (has_key(stream, file->key)) {
    while (fgets(line, sizeof line, stream) != NULL) fputs(line, to);
  }
  fclose(stream);
}

/* If it cannot be written, the choice is measured again in the next run. */
static void add(const choice_file_t *file, const char *question, const train_choice_t *choice) {
  char aside[BASE_CACHE_PATH_BYTES + 8];
  snprintf(aside, sizeof aside, "%s.new", file->path);
  FILE *stream = fopen(aside, "we");
  if (stream == NULL) return;
  fputs(file->key, stream);
  copy_lines(file, stream);
  fprintf(stream, "%s = %s %.0f\n", question, choice->name, choice->rate);
  bool written = ferror(stream) == 0;
  if (fclose(stream) != 0 || !written || rename(aside, file->path) != 0) unlink(aside);
}

bool train_choice_get(const char *variant, const char *question, train_choose_t *choose,
                      void *context, train_choice_t *choice) {
  choice_file_t file;
  if (!find_file(variant, &file)) return false;
  int locked = lock(&file);
  if (locked < 0) return false;
  bool found = find(&file, question, choice);
  if (!found) {
    found = choose(context, choice);
    if (found) add(&file, question, choice);
  }
  close(locked);
  return found;
}

uint64_t train_choice_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
