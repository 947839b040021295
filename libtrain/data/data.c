/* The folder is walked with fts in the order of names, so that every rank reads the same text. */
#include "libtrain/data/data.h"

#include <assert.h>
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

typedef struct tally {
  size_t unreadable, not_text;
} tally_t;

bool train_data_is_held_out(const char *relative_path) {
  return train_random_digest(0, relative_path, strlen(relative_path)) % HELD_OUT_ONE_IN == 0;
}

static int by_name(const FTSENT **a, const FTSENT **b) {
  return strcmp((*a)->fts_name, (*b)->fts_name);
}

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

/* Appends the file and its end mark, or counts it in `tally` and leaves `text` as it was. */
static coll_status_t append_file(const char *path, size_t size, train_text_t *text,
                                 tally_t *tally) {
  if (size == 0) return COLL_OK;
  void *bytes = text->bytes;
  COLL_TRY(base_grow(&bytes, &text->capacity, text->count + size + 1, 1, "the training text"));
  text->bytes = bytes;
  uint8_t *end = text->bytes + text->count;
  size_t got;
  if (!read_file(path, size, end, &got)) {
    tally->unreadable++;
  } else if (memchr(end, TRAIN_END_OF_FILE, got) != NULL) {
    tally->not_text++;
  } else if (got > 0) {
    end[got] = TRAIN_END_OF_FILE;
    text->count += got + 1;
    text->files++;
  }
  return COLL_OK;
}

static coll_status_t visit(const FTSENT *entry, size_t root_length, train_data_t *data,
                           tally_t *tally) {
  if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS) {
    tally->unreadable++;
  }
  if (entry->fts_info != FTS_F) return COLL_OK;
  const char *relative = entry->fts_path + root_length;
  while (*relative == '/') relative++;
  if (*relative == '\0') relative = entry->fts_name; /* the data is this one file */
  train_text_t *side = train_data_is_held_out(relative) ? &data->held_out : &data->training;
  return append_file(entry->fts_accpath, (size_t)entry->fts_statp->st_size, side, tally);
}

static coll_status_t walk(const char *path, train_data_t *data, tally_t *tally) {
  char *roots[] = {(char *)path, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
  if (tree == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot walk %s", path);
  coll_status_t status = COLL_OK;
  FTSENT *entry;
  while (status == COLL_OK && (errno = 0, entry = fts_read(tree)) != NULL) {
    status = visit(entry, strlen(path), data, tally);
  }
  if (status == COLL_OK && errno != 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot walk %s to its end", path);
  }
  fts_close(tree);
  return status;
}

/* Makes the last tenth of all bytes the held-out side; one of the two sides is empty. */
static coll_status_t split_by_place(train_data_t *data) {
  train_text_t all = data->training.count > 0 ? data->training : data->held_out;
  train_text_t none = data->training.count > 0 ? data->held_out : data->training;
  size_t kept = all.count - all.count / HELD_OUT_ONE_IN;
  data->training = all;
  data->held_out = none;
  void *bytes = none.bytes;
  COLL_TRY(base_grow(&bytes, &data->held_out.capacity, all.count - kept, 1, "the held-out text"));
  data->held_out.bytes = bytes;
  memcpy(bytes, all.bytes + kept, all.count - kept);
  data->held_out.count = all.count - kept;
  data->held_out.files = 1;
  data->training.count = kept;
  return COLL_OK;
}

coll_status_t train_data_load(const char *path, train_data_t *data) {
  struct stat found;
  if (stat(path, &found) != 0)
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --data %s", path);
  train_data_t loaded = {0};
  tally_t tally = {0};
  coll_status_t status = walk(path, &loaded, &tally);
  if (status != COLL_OK) goto failed;
  if (loaded.training.count + loaded.held_out.count == 0) {
    status = base_fail(COLL_ERROR_INVALID,
                       "--data %s: no text in it (%zu unreadable, %zu not text); name a text file "
                       "or a folder of them",
                       path, tally.unreadable, tally.not_text);
    goto failed;
  }
  if (loaded.training.count == 0 || loaded.held_out.count == 0) {
    status = split_by_place(&loaded);
    if (status != COLL_OK) goto failed;
  }
  *data = loaded;
  return COLL_OK;
failed:
  train_data_free(&loaded);
  return status;
}

void train_data_free(train_data_t *data) {
  free(data->training.bytes);
  free(data->held_out.bytes);
  *data = (train_data_t){0};
}

coll_status_t train_data_check(const train_data_t *data, int context) {
  size_t needed = (size_t)context + 1;
  if (data->training.count >= needed && data->held_out.count >= needed) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "context %d is longer than the data: %zu bytes to train on and %zu held out; "
                   "lower --context or give more text",
                   context, data->training.count, data->held_out.count);
}

size_t train_data_offset(uint64_t seed, uint64_t step, int batch, int row, size_t count,
                         int length) {
  assert(count > (size_t)length);
  uint64_t draw = step * (uint64_t)batch + (uint64_t)row;
  return (size_t)train_random_below(seed, TRAIN_RANDOM_BATCHES, draw, count - (size_t)length);
}

void train_data_sequence(const train_text_t *text, size_t offset, int length, int32_t *tokens,
                         int32_t *targets) {
  assert(offset + (size_t)length < text->count);
  for (int i = 0; i < length; i++) {
    tokens[i] = text->bytes[offset + (size_t)i];
    targets[i] = text->bytes[offset + (size_t)i + 1];
  }
}
