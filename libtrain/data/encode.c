/* The folder is written under a temporary name and renamed once all its files are synced. */
#include "libtrain/data/encode.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtrain/data/tokenizer_files.h"

#define TOKENIZER_NAME "tokenizer.json"

/* ---- documents ---- */

typedef struct encoding {
  train_tokenizer_t *tokenizer;
  train_shard_writer_t *writers; /* [TRAIN_SPLITS] */
  train_ids_t ids;
} encoding_t;

static coll_status_t encode_chunk(void *context, const train_text_chunk_t *chunk) {
  encoding_t *encoding = context;
  train_ids_t *ids = &encoding->ids;
  ids->count = 0;
  COLL_TRY(
      chunk->is_last
          ? train_tokenizer_encode_document(encoding->tokenizer, chunk->bytes, chunk->count, ids)
          : train_tokenizer_encode(encoding->tokenizer, chunk->bytes, chunk->count, ids));
  return train_shard_writer_add(&encoding->writers[chunk->split], ids);
}

static coll_status_t encode_all(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                const train_progress_t *progress,
                                train_shard_writer_t writers[TRAIN_SPLITS]) {
  encoding_t encoding = {.tokenizer = tokenizer, .writers = writers};
  coll_status_t status = train_text_files_read(texts, encode_chunk, &encoding, progress);
  train_ids_free(&encoding.ids);
  return status;
}

static coll_status_t encode_into(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                 const char *folder, uint64_t max_tokens,
                                 const train_progress_t *progress,
                                 train_shard_writer_t writers[TRAIN_SPLITS]) {
  int open = 0;
  coll_status_t status = COLL_OK;
  for (; status == COLL_OK && open < TRAIN_SPLITS; open += status == COLL_OK) {
    status =
        train_shard_writer_open(tokenizer, folder, (train_split_t)open, max_tokens, &writers[open]);
  }
  if (status == COLL_OK) status = encode_all(texts, tokenizer, progress, writers);
  for (int i = 0; status == COLL_OK && i < TRAIN_SPLITS; i++) {
    status = train_shard_writer_finish(&writers[i]);
  }
  if (status == COLL_OK) return COLL_OK;
  while (open > 0) train_shard_writer_close(&writers[--open]);
  return status;
}

coll_status_t train_encode_to_memory(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                     const train_progress_t *progress,
                                     train_shard_writer_t writers[TRAIN_SPLITS]) {
  return encode_into(texts, tokenizer, NULL, TRAIN_SHARD_TOKENS_MAX, progress, writers);
}

/* ---- the output folder ---- */

static bool is_output_name(const char *name) {
  return strncmp(name, "train_", strlen("train_")) == 0 ||
         strncmp(name, "val_", strlen("val_")) == 0 ||
         strncmp(name, TOKENIZER_NAME, strlen(TOKENIZER_NAME)) == 0;
}

/* Removes the files that an interrupted run left, and no others. */
static void remove_partial(const char *partial) {
  DIR *entries = opendir(partial);
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (is_output_name(entry->d_name)) unlinkat(dirfd(entries), entry->d_name, 0);
  }
  closedir(entries);
  rmdir(partial);
}

static coll_status_t create_partial(const char *folder, char partial[PATH_MAX],
                                    char path[PATH_MAX]) {
  size_t length = strlen(folder);
  struct stat found;
  while (length > 1 && folder[length - 1] == '/') length--;
  if (length == 0 || length + sizeof ".part" > PATH_MAX) {
    return base_fail(COLL_ERROR_INVALID, "the path of the folder '%s' is empty or too long",
                     folder);
  }
  snprintf(path, PATH_MAX, "%.*s", (int)length, folder);
  snprintf(partial, PATH_MAX, "%.*s.part", (int)length, folder);
  if (lstat(path, &found) == 0) {
    return base_fail(
        COLL_ERROR_INVALID,
        "cannot write shards to %s: it already exists; remove it or choose another name", path);
  }
  remove_partial(partial);
  if (mkdir(partial, 0777) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create the folder %s", partial);
}

/* Makes the folder's entries durable. A sync failure is ignored: some file systems cannot sync
 * folders. */
static void sync_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

static coll_status_t publish(const char *partial, const char *path) {
  char copy[PATH_MAX];
  sync_folder(partial);
  if (rename(partial, path) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot rename %s to %s", partial, path);
  }
  snprintf(copy, sizeof copy, "%s", path);
  sync_folder(dirname(copy));
  return COLL_OK;
}

static coll_status_t write_folder(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                  const char *partial, uint64_t max_tokens,
                                  const train_progress_t *progress, uint64_t tokens[TRAIN_SPLITS]) {
  train_shard_writer_t writers[TRAIN_SPLITS];
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/" TOKENIZER_NAME, partial) >= PATH_MAX) {
    return base_fail(COLL_ERROR_INVALID, "the path of the folder %s is too long", partial);
  }
  COLL_TRY(train_tokenizer_save(tokenizer, path));
  COLL_TRY(encode_into(texts, tokenizer, partial, max_tokens, progress, writers));
  for (int split = 0; split < TRAIN_SPLITS; split++) {
    tokens[split] = writers[split].tokens;
    train_shard_writer_close(&writers[split]);
  }
  return COLL_OK;
}

coll_status_t train_encode_to_folder(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                     const char *folder, uint64_t max_tokens,
                                     const train_progress_t *progress,
                                     uint64_t tokens[TRAIN_SPLITS]) {
  char partial[PATH_MAX], path[PATH_MAX];
  uint64_t wrote[TRAIN_SPLITS] = {0};
  COLL_TRY(create_partial(folder, partial, path));
  coll_status_t status = write_folder(texts, tokenizer, partial, max_tokens, progress, wrote);
  if (status == COLL_OK) status = publish(partial, path);
  if (status != COLL_OK) {
    remove_partial(partial);
    return status;
  }
  for (int split = 0; split < TRAIN_SPLITS; split++) tokens[split] = wrote[split];
  return COLL_OK;
}
