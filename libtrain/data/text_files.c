/* fts walks the folder sorted by name, so that every run produces the same list. */
#include "libtrain/data/text_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"

#define HELD_OUT_ONE_IN 10
#define READ_BYTES ((size_t)1 << 20)
#define CHUNK_BYTES ((size_t)16 << 20)

/* State of a directory walk. */
typedef struct walk {
  train_text_files_t *texts;
  size_t root_length;
  uint8_t *buffer; /* [LOOK_BYTES] */
  size_t unreadable, not_text;
} walk_t;

bool train_text_is_held_out(const char *relative_path) {
  return train_random_digest(0, relative_path, strlen(relative_path)) % HELD_OUT_ONE_IN == 0;
}

/* ---- the list ---- */

static coll_status_t add_file(train_text_files_t *texts, const char *path, const char *relative,
                              uint64_t bytes) {
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

/* Counts the bytes of a text file. Stops at a zero byte, which sets *is_text to false. Returns
 * false when the file cannot be read. */
static bool measure(const char *path, uint8_t *buffer, uint64_t *bytes, bool *is_text) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  ssize_t got = 1;
  for (*bytes = 0, *is_text = true; *is_text && got != 0;) {
    got = read(file, buffer, READ_BYTES);
    if (got < 0 && errno != EINTR) break;
    if (got <= 0) continue;
    *bytes += (uint64_t)got;
    *is_text = memchr(buffer, 0, (size_t)got) == NULL;
  }
  close(file);
  return got >= 0;
}

static coll_status_t visit_entry(const FTSENT *entry, walk_t *walk) {
  uint64_t bytes = 0;
  bool is_text = false, is_file = entry->fts_info == FTS_F && entry->fts_statp->st_size > 0;
  if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS ||
      (is_file && !measure(entry->fts_accpath, walk->buffer, &bytes, &is_text))) {
    walk->unreadable++;
    return COLL_OK;
  }
  if (is_file && !is_text) walk->not_text++;
  if (!is_text || bytes == 0) return COLL_OK;
  const char *relative = entry->fts_path + walk->root_length;
  while (*relative == '/') relative++;
  if (*relative == '\0') relative = entry->fts_name; /* the path names a single file */
  return add_file(walk->texts, entry->fts_path, relative, bytes);
}

static int by_name(const FTSENT **a, const FTSENT **b) {
  return strcmp((*a)->fts_name, (*b)->fts_name);
}

static coll_status_t walk_tree(const char *path, walk_t *walk) {
  char *roots[] = {(char *)path, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
  if (tree == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read the folder %s", path);
  coll_status_t status = COLL_OK;
  FTSENT *entry;
  while (status == COLL_OK && (errno = 0, entry = fts_read(tree)) != NULL) {
    status = visit_entry(entry, walk);
  }
  if (status == COLL_OK && errno != 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot read all of the folder %s", path);
  }
  fts_close(tree);
  return status;
}

/* ---- training and held-out data ---- */

static void count_splits(train_text_files_t *texts) {
  for (int split = 0; split < TRAIN_SPLITS; split++)
    texts->files_of[split] = texts->bytes_of[split] = 0;
  for (size_t i = 0; i < texts->count; i++) {
    const train_text_file_t *file = &texts->files[i];
    texts->files_of[TRAIN_SPLIT_TRAINING] += file->held_out_from > 0;
    texts->files_of[TRAIN_SPLIT_HELD_OUT] += file->held_out_from < file->bytes;
    texts->bytes_of[TRAIN_SPLIT_TRAINING] += file->held_out_from;
    texts->bytes_of[TRAIN_SPLIT_HELD_OUT] += file->bytes - file->held_out_from;
  }
}

/* Holds out the last tenth of all bytes. */
static void split_by_position(train_text_files_t *texts) {
  uint64_t all = texts->bytes_of[TRAIN_SPLIT_TRAINING] + texts->bytes_of[TRAIN_SPLIT_HELD_OUT];
  uint64_t left = all - all / HELD_OUT_ONE_IN;
  for (size_t i = 0; i < texts->count; i++) {
    train_text_file_t *file = &texts->files[i];
    file->held_out_from = left < file->bytes ? left : file->bytes;
    left -= file->held_out_from;
  }
  count_splits(texts);
}

coll_status_t train_text_files_list(const char *path, train_text_files_t *texts) {
  struct stat found;
  if (stat(path, &found) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read --data %s", path);
  }
  train_text_files_t listed = {0};
  void *buffer;
  COLL_TRY(base_alloc(READ_BYTES, 1, "text", &buffer));
  walk_t walk = {.texts = &listed, .root_length = strlen(path), .buffer = buffer};
  coll_status_t status = walk_tree(path, &walk);
  free(buffer);
  if (status == COLL_OK && listed.count == 0) {
    status = base_fail(COLL_ERROR_INVALID,
                       "--data %s contains no text (%zu unreadable, %zu not text); give a text "
                       "file or a folder of text files",
                       path, walk.unreadable, walk.not_text);
  }
  if (status != COLL_OK) {
    train_text_files_free(&listed);
    return status;
  }
  count_splits(&listed);
  if (listed.bytes_of[TRAIN_SPLIT_TRAINING] == 0 || listed.bytes_of[TRAIN_SPLIT_HELD_OUT] == 0) {
    split_by_position(&listed);
  }
  *texts = listed;
  return COLL_OK;
}

void train_text_files_free(train_text_files_t *texts) {
  for (size_t i = 0; i < texts->count; i++) free(texts->files[i].path);
  free(texts->files);
  *texts = (train_text_files_t){0};
}

/* ---- reading in chunks ---- */

/* Reads the listed files one after the other. */
typedef struct reader {
  train_text_visit_t visit;
  void *context;
  const train_progress_t *progress;
  double done, total; /* bytes */
  const char *path;
  int file;
  uint8_t *bytes; /* [filled]: bytes not visited yet */
  size_t filled, capacity;
} reader_t;

/* Reads until the buffer holds `wanted` bytes, for which the caller has reserved memory, or the
 * file ends. */
static bool fill(reader_t *reader, size_t wanted) {
  while (reader->filled < wanted) {
    ssize_t got = read(reader->file, reader->bytes + reader->filled, wanted - reader->filled);
    if (got < 0 && errno != EINTR) return false;
    if (got == 0) break;
    if (got > 0) reader->filled += (size_t)got;
  }
  return true;
}

static coll_status_t reserve(reader_t *reader, uint64_t count) {
  void *memory = reader->bytes;
  COLL_TRY(base_grow(&memory, &reader->capacity, (size_t)count, 1, "text"));
  reader->bytes = memory;
  return COLL_OK;
}

/* The end of the last line in the buffer, before its '\n', if the character before it is not white
 * space: no word spans that position. 0 when there is none. */
static size_t last_word_boundary(const uint8_t *bytes, size_t count) {
  for (size_t at = count; at-- > 1;) {
    if (bytes[at] == '\n' && bytes[at - 1] > ' ' && bytes[at - 1] < 127) return at;
  }
  return 0;
}

static void discard(reader_t *reader, size_t count) {
  memmove(reader->bytes, reader->bytes + count, reader->filled - count);
  reader->filled -= count;
}

static coll_status_t fail_truncated(const reader_t *reader) {
  return base_fail(COLL_ERROR_SYSTEM, "%s was truncated while it was being read: try again",
                   reader->path);
}

/* Visits the next `left` bytes of the file. */
static coll_status_t read_split(reader_t *reader, uint64_t left, train_split_t split,
                                bool is_last) {
  for (size_t limit = CHUNK_BYTES; left > 0;) {
    size_t wanted = left < limit ? (size_t)left : limit;
    COLL_TRY(reserve(reader, wanted));
    if (!fill(reader, wanted)) {
      return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", reader->path);
    }
    if (reader->filled < wanted) return fail_truncated(reader);
    size_t count = wanted == left ? wanted : last_word_boundary(reader->bytes, wanted);
    if (count == 0) { /* a line longer than the chunk */
      limit *= 2;
      continue;
    }
    const train_text_chunk_t chunk = {.bytes = reader->bytes,
                                      .count = count,
                                      .split = split,
                                      .is_last = is_last && count == left};
    COLL_TRY(reader->visit(reader->context, &chunk));
    discard(reader, count);
    left -= count;
    limit = CHUNK_BYTES;
    reader->done += (double)count;
    train_progress_report(reader->progress, reader->done, reader->total);
  }
  return COLL_OK;
}

static coll_status_t read_file(reader_t *reader, const train_text_file_t *file) {
  uint64_t training = file->held_out_from, held_out = file->bytes - training;
  reader->path = file->path;
  reader->filled = 0;
  reader->file = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (reader->file < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", file->path);
  coll_status_t status = read_split(reader, training, TRAIN_SPLIT_TRAINING, held_out == 0);
  if (status == COLL_OK) status = read_split(reader, held_out, TRAIN_SPLIT_HELD_OUT, true);
  close(reader->file);
  return status;
}

coll_status_t train_text_files_read(const train_text_files_t *texts, train_text_visit_t visit,
                                    void *context, const train_progress_t *progress) {
  reader_t reader = {.visit = visit, .context = context, .progress = progress};
  coll_status_t status = COLL_OK;
  for (int split = 0; split < TRAIN_SPLITS; split++) reader.total += (double)texts->bytes_of[split];
  for (size_t i = 0; status == COLL_OK && i < texts->count; i++) {
    status = read_file(&reader, &texts->files[i]);
  }
  free(reader.bytes);
  return status;
}
