/* A shard is written with a zeroed header, which no reader accepts. The real header is written
 * last, when the shard is complete. */
#include "libtrain/data/shard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "libtrain/files/io.h"

#define MAGIC 20240520
#define MAGIC_32_BITS 20240801 /* shards of Llama 3 tokens */
#define VERSION 1
#define HEADER_BYTES 1024
#define BUFFER_TOKENS ((size_t)1 << 18)

typedef struct header {
  int32_t magic, version, count;
  /* set by this program, zero in shards of others */
  uint32_t vocabulary;
  uint32_t digest_low, digest_high;
  int32_t unused[250];
} header_t;

_Static_assert(sizeof(header_t) == HEADER_BYTES, "256 words");

/* ---- reading ---- */

static coll_status_t check_header(const char *path, const header_t *header, uint64_t bytes) {
  if (header->magic == MAGIC_32_BITS) {
    return base_fail(COLL_ERROR_INVALID, "%s has 32-bit tokens; only 16-bit tokens are supported",
                     path);
  }
  if (header->magic != MAGIC) {
    return base_fail(COLL_ERROR_INVALID, "%s is not a token shard (llm.c's .bin)", path);
  }
  if (header->version != VERSION) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s is a token shard of version %d; only version %d is supported", path,
                     header->version, VERSION);
  }
  uint64_t expected = HEADER_BYTES + sizeof(uint16_t) * (uint64_t)(uint32_t)header->count;
  if (header->count < 0 || bytes != expected) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s is truncated or padded: %llu bytes, but its header says %d tokens", path,
                     (unsigned long long)bytes, header->count);
  }
  return COLL_OK;
}

static coll_status_t map(const train_input_t *input, const char *path, train_shard_t *shard) {
  header_t header;
  if (input->bytes < HEADER_BYTES) {
    return base_fail(COLL_ERROR_INVALID, "%s is too short to be a token shard", path);
  }
  COLL_TRY(train_input_read(input, 0, sizeof header, &header));
  COLL_TRY(check_header(path, &header, input->bytes));
  char *name = strdup(path);
  if (name == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for %s", path);
  void *start = mmap(NULL, (size_t)input->bytes, PROT_READ, MAP_SHARED, input->file, 0);
  if (start == MAP_FAILED) {
    free(name);
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot map %s", path);
  }
  *shard =
      (train_shard_t){.tokens = (const uint16_t *)((const char *)start + HEADER_BYTES),
                      .count = (uint64_t)header.count,
                      .vocabulary = header.vocabulary,
                      .tokenizer_digest = (uint64_t)header.digest_high << 32 | header.digest_low,
                      .name = name,
                      .mapped_bytes = (size_t)input->bytes};
  return COLL_OK;
}

coll_status_t train_shard_open(const char *path, train_shard_t *shard) {
  train_input_t input;
  COLL_TRY(train_input_open(path, &input));
  coll_status_t status = map(&input, path, shard);
  train_input_close(&input);
  return status;
}

bool train_shard_detect(const char *path) {
  int32_t magic = 0;
  train_input_t input;
  if (train_input_open(path, &input) != COLL_OK) return false;
  bool read = train_input_read(&input, 0, sizeof magic, &magic) == COLL_OK;
  train_input_close(&input);
  return read && (magic == MAGIC || magic == MAGIC_32_BITS);
}

void train_shard_close(train_shard_t *shard) {
  if (shard->tokens != NULL) {
    munmap((void *)((uintptr_t)shard->tokens - HEADER_BYTES), shard->mapped_bytes);
  }
  free(shard->name);
  *shard = (train_shard_t){0};
}

/* ---- writing ---- */

static coll_status_t name_of(const train_shard_writer_t *writer, int shard, char path[PATH_MAX]) {
  static const char *const prefixes[TRAIN_SPLITS] = {"train", "val"};
  const char *folder = writer->folder != NULL ? writer->folder : "memory";
  if (snprintf(path, PATH_MAX, "%s/%s_%06d.bin", folder, prefixes[writer->split], shard) <
      PATH_MAX) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "the path of the folder %s is too long", folder);
}

static coll_status_t fail_to_write(const train_shard_writer_t *writer) {
  char path[PATH_MAX];
  int error = errno;
  COLL_TRY(name_of(writer, writer->shards - 1, path));
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
}

/* Writes all bytes at the offset, or fails. */
static coll_status_t write_at(const train_shard_writer_t *writer, const void *bytes, size_t count,
                              uint64_t offset) {
  const char *from = bytes;
  while (count > 0) {
    ssize_t wrote = pwrite(writer->file, from, count, (off_t)offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return fail_to_write(writer);
    from += wrote;
    offset += (uint64_t)wrote;
    count -= (size_t)wrote;
  }
  return COLL_OK;
}

static coll_status_t begin_shard(train_shard_writer_t *writer) {
  char path[PATH_MAX];
  COLL_TRY(name_of(writer, writer->shards, path));
  writer->shards++;
  writer->count = 0;
  writer->file = writer->folder != NULL ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                                        : memfd_create("tokens", MFD_CLOEXEC);
  return writer->file >= 0 ? COLL_OK : fail_to_write(writer);
}

static coll_status_t flush(train_shard_writer_t *writer) {
  uint64_t offset = HEADER_BYTES + (writer->count - writer->buffered) * sizeof(uint16_t);
  size_t bytes = writer->buffered * sizeof(uint16_t);
  writer->buffered = 0;
  return write_at(writer, writer->buffer, bytes, offset);
}

static coll_status_t end_shard(train_shard_writer_t *writer) {
  uint64_t digest = writer->tokenizer->digest;
  const header_t header = {.magic = MAGIC,
                           .version = VERSION,
                           .count = (int32_t)writer->count,
                           .vocabulary = (uint32_t)writer->tokenizer->tokens.count,
                           .digest_low = (uint32_t)digest,
                           .digest_high = (uint32_t)(digest >> 32)};
  COLL_TRY(flush(writer));
  COLL_TRY(write_at(writer, &header, sizeof header, 0));
  if (writer->folder == NULL) return COLL_OK;
  int file = writer->file;
  if (fsync(file) != 0) return fail_to_write(writer);
  writer->file = -1;
  return close(file) == 0 ? COLL_OK : fail_to_write(writer);
}

coll_status_t train_shard_writer_open(const train_tokenizer_t *tokenizer, const char *folder,
                                      train_split_t split, uint64_t max_tokens,
                                      train_shard_writer_t *writer) {
  assert(max_tokens >= 1 && max_tokens <= TRAIN_SHARD_TOKENS_MAX);
  void *buffer;
  COLL_TRY(base_alloc(BUFFER_TOKENS, sizeof(uint16_t), "a token shard", &buffer));
  train_shard_writer_t opened = {.tokenizer = tokenizer,
                                 .folder = folder,
                                 .split = split,
                                 .max_tokens = max_tokens,
                                 .file = -1,
                                 .buffer = buffer};
  coll_status_t status = begin_shard(&opened);
  if (status != COLL_OK) {
    train_shard_writer_close(&opened);
    return status;
  }
  *writer = opened;
  return COLL_OK;
}

static coll_status_t prepare_shard(train_shard_writer_t *writer) {
  if (writer->count == writer->max_tokens) {
    if (writer->folder == NULL) {
      return base_fail(COLL_ERROR_UNSUPPORTED,
                       "more than %llu tokens of text: write them to shards once, with gpt "
                       "tokenizer encode, and train on those",
                       (unsigned long long)writer->max_tokens);
    }
    COLL_TRY(end_shard(writer));
    return begin_shard(writer);
  }
  return writer->buffered == BUFFER_TOKENS ? flush(writer) : COLL_OK;
}

coll_status_t train_shard_writer_add(train_shard_writer_t *writer, const train_ids_t *ids) {
  for (size_t done = 0; done < ids->count;) {
    COLL_TRY(prepare_shard(writer));
    uint64_t free_tokens = writer->max_tokens - writer->count;
    size_t count = BUFFER_TOKENS - writer->buffered;
    if (count > free_tokens) count = (size_t)free_tokens;
    if (count > ids->count - done) count = ids->count - done;
    memcpy(writer->buffer + writer->buffered, ids->ids + done, count * sizeof *ids->ids);
    writer->buffered += count;
    writer->count += count;
    writer->tokens += count;
    done += count;
  }
  return COLL_OK;
}

coll_status_t train_shard_writer_finish(train_shard_writer_t *writer) {
  return end_shard(writer);
}

void train_shard_writer_close(train_shard_writer_t *writer) {
  if (writer->file >= 0) close(writer->file);
  free(writer->buffer);
  *writer = (train_shard_writer_t){.file = -1};
}
