/* A folder is filled under another name, and renamed when all in it is on the disk. */
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
  train_shard_writer_t *writers; /* [TRAIN_SIDES] */
  train_ids_t ids;
} encoding_t;

static coll_status_t encode_piece(void *context, const train_text_piece_t *piece) {
  encoding_t *encoding = context;
  train_ids_t *ids = &encoding->ids;
  ids->count = 0;
  COLL_TRY(
      piece->ends
          ? train_tokenizer_encode_document(encoding->tokenizer, piece->bytes, piece->count, ids)
          : train_tokenizer_encode(encoding->tokenizer, piece->bytes, piece->count, ids));
  return train_shard_writer_add(&encoding->writers[piece->side], ids);
}

static coll_status_t encode_all(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                                const train_watch_t *watch,
                                train_shard_writer_t writers[TRAIN_SIDES]) {
  encoding_t encoding = {.tokenizer = tokenizer, .writers = writers};
  coll_status_t status = train_texts_read(texts, encode_piece, &encoding, watch);
  train_ids_free(&encoding.ids);
  return status;
}

static coll_status_t encode_into(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                                 const char *folder, uint64_t tokens_most,
                                 const train_watch_t *watch,
                                 train_shard_writer_t writers[TRAIN_SIDES]) {
  int open = 0;
  coll_status_t status = COLL_OK;
  for (; status == COLL_OK && open < TRAIN_SIDES; open += status == COLL_OK) {
    status =
        train_shard_writer_open(tokenizer, folder, (train_side_t)open, tokens_most, &writers[open]);
  }
  if (status == COLL_OK) status = encode_all(texts, tokenizer, watch, writers);
  for (int i = 0; status == COLL_OK && i < TRAIN_SIDES; i++) {
    status = train_shard_writer_finish(&writers[i]);
  }
  if (status == COLL_OK) return COLL_OK;
  while (open > 0) train_shard_writer_close(&writers[--open]);
  return status;
}

coll_status_t train_encode_to_memory(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                                     const train_watch_t *watch,
                                     train_shard_writer_t writers[TRAIN_SIDES]) {
  return encode_into(texts, tokenizer, NULL, TRAIN_SHARD_TOKENS_MOST, watch, writers);
}

/* ---- the folder ---- */

static bool is_ours(const char *name) {
  return strncmp(name, "train_", strlen("train_")) == 0 ||
         strncmp(name, "val_", strlen("val_")) == 0 ||
         strncmp(name, TOKENIZER_NAME, strlen(TOKENIZER_NAME)) == 0;
}

/* Removes what an encoding that was stopped has left, and nothing that is not of one. */
static void remove_part(const char *part) {
  DIR *entries = opendir(part);
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (is_ours(entry->d_name)) unlinkat(dirfd(entries), entry->d_name, 0);
  }
  closedir(entries);
  rmdir(part);
}

static coll_status_t make_part(const char *folder, char part[PATH_MAX], char place[PATH_MAX]) {
  size_t length = strlen(folder);
  struct stat found;
  while (length > 1 && folder[length - 1] == '/') length--;
  if (length == 0 || length + sizeof ".part" > PATH_MAX) {
    return base_fail(COLL_ERROR_INVALID, "the path of the folder '%s' is empty or too long",
                     folder);
  }
  snprintf(place, PATH_MAX, "%.*s", (int)length, folder);
  snprintf(part, PATH_MAX, "%.*s.part", (int)length, folder);
  if (lstat(place, &found) == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "cannot write shards to %s: it is there already; remove it or name another",
                     place);
  }
  remove_part(part);
  if (mkdir(part, 0777) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot make the folder %s", part);
}

/* Makes what is named in a folder last. One that cannot be synced is no failure: some file systems
 * have no such thing. */
static void sync_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

static coll_status_t put_in_place(const char *part, const char *place) {
  char copy[PATH_MAX];
  sync_folder(part);
  if (rename(part, place) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot rename %s to %s", part, place);
  }
  snprintf(copy, sizeof copy, "%s", place);
  sync_folder(dirname(copy));
  return COLL_OK;
}

static coll_status_t fill(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                          const char *part, uint64_t tokens_most, const train_watch_t *watch,
                          uint64_t tokens[TRAIN_SIDES]) {
  train_shard_writer_t writers[TRAIN_SIDES];
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/" TOKENIZER_NAME, part) >= PATH_MAX) {
    return base_fail(COLL_ERROR_INVALID, "the path of the folder %s is too long", part);
  }
  COLL_TRY(train_tokenizer_save(tokenizer, path));
  COLL_TRY(encode_into(texts, tokenizer, part, tokens_most, watch, writers));
  for (int side = 0; side < TRAIN_SIDES; side++) {
    tokens[side] = writers[side].tokens;
    train_shard_writer_close(&writers[side]);
  }
  return COLL_OK;
}

coll_status_t train_encode_to_folder(const train_texts_t *texts, train_tokenizer_t *tokenizer,
                                     const char *folder, uint64_t tokens_most,
                                     const train_watch_t *watch, uint64_t tokens[TRAIN_SIDES]) {
  char part[PATH_MAX], place[PATH_MAX];
  uint64_t wrote[TRAIN_SIDES] = {0};
  COLL_TRY(make_part(folder, part, place));
  coll_status_t status = fill(texts, tokenizer, part, tokens_most, watch, wrote);
  if (status == COLL_OK) status = put_in_place(part, place);
  if (status != COLL_OK) {
    remove_part(part);
    return status;
  }
  for (int side = 0; side < TRAIN_SIDES; side++) tokens[side] = wrote[side];
  return COLL_OK;
}
