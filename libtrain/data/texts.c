/* The folder is walked with fts in the order of names, so that every run finds the same list. */
#include "libtrain/data/texts.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "libtrain/random.h"

#define HELD_OUT_ONE_IN 10

/* What is found on the way. */
typedef struct walk {
  train_texts_t *texts;
  size_t root_length;
  train_text_buffer_t buffer;
  size_t unreadable, not_text;
} walk_t;

bool train_text_is_held_out(const char *relative_path) {
  return train_random_digest(0, relative_path, strlen(relative_path)) % HELD_OUT_ONE_IN == 0;
}

/* ---- one file ---- */

/* Reads up to `size` bytes of the file and sets *got to how many there were. */
static bool read_file(const char *path, size_t size, uint8_t *bytes, size_t *got) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  size_t have = 0;
  ssize_t more = 1;
  while (have < size && more != 0) {
    more = read(file, bytes + have, size - have);
    if (more < 0 && errno != EINTR) break;
    if (more > 0) have += (size_t)more;
  }
  close(file);
  *got = have;
  return more >= 0;
}

static coll_status_t make_room(train_text_buffer_t *buffer, uint64_t bytes) {
  void *memory = buffer->bytes;
  COLL_TRY(base_grow(&memory, &buffer->capacity, (size_t)bytes, 1, "a text file"));
  buffer->bytes = memory;
  return COLL_OK;
}

coll_status_t train_text_read(const train_text_file_t *file, train_text_buffer_t *buffer) {
  size_t got;
  COLL_TRY(make_room(buffer, file->bytes));
  if (!read_file(file->path, (size_t)file->bytes, buffer->bytes, &got)) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", file->path);
  }
  if (got == file->bytes) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "%s became shorter while it was being read: try again",
                   file->path);
}

/* ---- the list ---- */

static coll_status_t add_file(train_texts_t *texts, const char *path, const char *relative,
                              size_t bytes) {
  void *files = texts->files;
  COLL_TRY(
      base_grow(&files, &texts->capacity, texts->count + 1, sizeof *texts->files, "text files"));
  texts->files = files;
  char *copy = strdup(path);
  if (copy == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a list of files");
  texts->files[texts->count++] = (train_text_file_t){
      .path = copy, .bytes = bytes, .held_out_from = train_text_is_held_out(relative) ? 0 : bytes};
  return COLL_OK;
}

static coll_status_t visit(const FTSENT *entry, walk_t *walk) {
  if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS) {
    walk->unreadable++;
  }
  size_t size = entry->fts_info == FTS_F ? (size_t)entry->fts_statp->st_size : 0, got;
  if (size == 0) return COLL_OK;
  COLL_TRY(make_room(&walk->buffer, size));
  if (!read_file(entry->fts_accpath, size, walk->buffer.bytes, &got)) {
    walk->unreadable++;
    return COLL_OK;
  }
  if (memchr(walk->buffer.bytes, 0, got) != NULL) {
    walk->not_text++;
    return COLL_OK;
  }
  const char *relative = entry->fts_path + walk->root_length;
  while (*relative == '/') relative++;
  if (*relative == '\0') relative = entry->fts_name; /* the path is of this one file */
  return got > 0 ? add_file(walk->texts, entry->fts_path, relative, got) : COLL_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b) {
  return strcmp((*a)->fts_name, (*b)->fts_name);
}

static coll_status_t walk_tree(const char *path, walk_t *walk) {
  char *roots[] = {(char *)path, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
  if (tree == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot walk %s", path);
  coll_status_t status = COLL_OK;
  FTSENT *entry;
  while (status == COLL_OK && (errno = 0, entry = fts_read(tree)) != NULL) {
    status = visit(entry, walk);
  }
  if (status == COLL_OK && errno != 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot walk %s to its end", path);
  }
  fts_close(tree);
  return status;
}

/* ---- the two sides ---- */

static void count_sides(train_texts_t *texts) {
  for (int side = 0; side < TRAIN_SIDES; side++) texts->files_of[side] = texts->bytes_of[side] = 0;
  for (size_t i = 0; i < texts->count; i++) {
    const train_text_file_t *file = &texts->files[i];
    texts->files_of[TRAIN_TRAINING] += file->held_out_from > 0;
    texts->files_of[TRAIN_HELD_OUT] += file->held_out_from < file->bytes;
    texts->bytes_of[TRAIN_TRAINING] += file->held_out_from;
    texts->bytes_of[TRAIN_HELD_OUT] += file->bytes - file->held_out_from;
  }
}

/* Holds out the last tenth of all bytes. */
static void split_by_place(train_texts_t *texts) {
  uint64_t all = texts->bytes_of[TRAIN_TRAINING] + texts->bytes_of[TRAIN_HELD_OUT];
  uint64_t left = all - all / HELD_OUT_ONE_IN;
  for (size_t i = 0; i < texts->count; i++) {
    train_text_file_t *file = &texts->files[i];
    file->held_out_from = left < file->bytes ? left : file->bytes;
    left -= file->held_out_from;
  }
  count_sides(texts);
}

coll_status_t train_texts_list(const char *path, train_texts_t *texts) {
  struct stat found;
  if (stat(path, &found) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --data %s", path);
  }
  train_texts_t listed = {0};
  walk_t walk = {.texts = &listed, .root_length = strlen(path)};
  coll_status_t status = walk_tree(path, &walk);
  free(walk.buffer.bytes);
  if (status == COLL_OK && listed.count == 0) {
    status = base_fail(COLL_ERROR_INVALID,
                       "--data %s: no text in it (%zu unreadable, %zu not text); name a text file "
                       "or a folder of them",
                       path, walk.unreadable, walk.not_text);
  }
  if (status != COLL_OK) {
    train_texts_free(&listed);
    return status;
  }
  count_sides(&listed);
  if (listed.bytes_of[TRAIN_TRAINING] == 0 || listed.bytes_of[TRAIN_HELD_OUT] == 0) {
    split_by_place(&listed);
  }
  *texts = listed;
  return COLL_OK;
}

void train_texts_free(train_texts_t *texts) {
  for (size_t i = 0; i < texts->count; i++) free(texts->files[i].path);
  free(texts->files);
  *texts = (train_texts_t){0};
}
