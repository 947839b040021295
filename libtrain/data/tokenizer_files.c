/* Selects the file format by name. tokenizer_json.c reads and writes tokenizer.json. */
#include "libtrain/data/tokenizer_files.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtrain/data/vocab.h"
#include "libtrain/files/io.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define BYTES_NAME "bytes"
#define JSON_NAME "tokenizer.json"
#define VERSION_LINE "#version: 0.2\n"

/* The names of GPT-2's two files: the current ones and the original ones. */
static const struct {
  const char *vocabulary, *merges;
} pairs[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

static coll_status_t join_path(const char *folder, const char *name, char path[PATH_MAX]) {
  if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "the path of the folder %s is too long", folder);
}

/* ---- reading ---- */

static coll_status_t open_json(const char *path, train_tokenizer_t **tokenizer) {
  char *text;
  size_t count;
  COLL_TRY(train_input_read_all(path, MAX_FILE_BYTES, &text, &count));
  coll_status_t status = train_tokenizer_from_json(path, text, count, tokenizer);
  free(text);
  return status;
}

static coll_status_t read_vocabulary(const char *path, train_string_table_t *tokens) {
  json_error_t error;
  char *text;
  size_t count;
  COLL_TRY(train_input_read_all(path, MAX_FILE_BYTES, &text, &count));
  json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
  free(text);
  coll_status_t status = COLL_OK;
  if (root == NULL) {
    status = base_fail(COLL_ERROR_INVALID, "%s is not a vocabulary: line %d: %s", path, error.line,
                       error.text);
  } else {
    status = train_vocab_read(path, root, tokens);
  }
  json_decref(root);
  return status;
}

static coll_status_t read_merges(const char *path, const train_string_table_t *tokens,
                                 train_merge_list_t *list) {
  char *text;
  size_t count;
  coll_status_t status = COLL_OK;
  COLL_TRY(train_input_read_all(path, MAX_FILE_BYTES, &text, &count));
  const char *line = text, *end = text + count;
  while (status == COLL_OK && line < end) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (stop == NULL) stop = end;
    size_t length = (size_t)(stop - line);
    if (length > 0 && line[length - 1] == '\r') length--;
    bool is_version = line == text && strncmp(line, "#version", strlen("#version")) == 0;
    if (length > 0 && !is_version) {
      status = train_vocab_read_merge_line(path, tokens, line, length, list);
    }
    line = stop + 1;
  }
  free(text);
  return status;
}

static coll_status_t open_pair(const char *vocabulary, const char *merges,
                               train_tokenizer_t **tokenizer) {
  train_string_table_t tokens = {0};
  train_merge_list_t list = {0};
  coll_status_t status = read_vocabulary(vocabulary, &tokens);
  if (status == COLL_OK) status = read_merges(merges, &tokens, &list);
  if (status == COLL_OK) {
    status = train_tokenizer_create(merges, &tokens, list.merges, list.count, tokenizer);
  }
  if (status != COLL_OK) free(list.merges);
  train_string_table_free(&tokens);
  return status;
}

static bool has(const char *folder, const char *name) {
  char path[PATH_MAX];
  return join_path(folder, name, path) == COLL_OK && access(path, F_OK) == 0;
}

bool train_tokenizer_exists_in(const char *folder) {
  bool found = has(folder, JSON_NAME);
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    found = found || has(folder, pairs[i].vocabulary);
  }
  return found;
}

static coll_status_t open_folder(const char *folder, train_tokenizer_t **tokenizer) {
  char path[PATH_MAX], other[PATH_MAX];
  COLL_TRY(join_path(folder, JSON_NAME, path));
  if (access(path, F_OK) == 0) return open_json(path, tokenizer);
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    COLL_TRY(join_path(folder, pairs[i].vocabulary, path));
    COLL_TRY(join_path(folder, pairs[i].merges, other));
    if (access(path, F_OK) == 0) return open_pair(path, other, tokenizer);
  }
  return base_fail(
      COLL_ERROR_INVALID,
      "no tokenizer in the folder %s: neither " JSON_NAME " nor vocab.json and merges.txt", folder);
}

coll_status_t train_tokenizer_open(const char *path, train_tokenizer_t **tokenizer) {
  struct stat found;
  if (strcmp(path, BYTES_NAME) == 0) return train_tokenizer_create_bytes(tokenizer);
  if (stat(path, &found) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read the tokenizer %s", path);
  }
  return S_ISDIR(found.st_mode) ? open_folder(path, tokenizer) : open_json(path, tokenizer);
}

/* ---- writing ---- */

static coll_status_t write_text(const char *path, const char *text, size_t count) {
  train_output_t output;
  train_output_open(path, &output);
  train_output_write(&output, text, count);
  return train_output_commit(&output);
}

static coll_status_t save_json(const train_tokenizer_t *tokenizer, const char *path) {
  char *text;
  size_t count;
  COLL_TRY(train_tokenizer_to_json(tokenizer, &text, &count));
  coll_status_t status = write_text(path, text, count);
  free(text);
  return status;
}

static coll_status_t save_vocabulary(const train_tokenizer_t *tokenizer, const char *path) {
  json_t *root = train_vocab_to_json(tokenizer);
  char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
  coll_status_t status = text != NULL ? write_text(path, text, strlen(text))
                                      : base_fail(COLL_ERROR_MEMORY, "out of memory for %s", path);
  free(text);
  json_decref(root);
  return status;
}

static coll_status_t print_merges(const train_tokenizer_t *tokenizer, FILE *text) {
  fputs(VERSION_LINE, text);
  for (size_t rank = 0; rank < tokenizer->merge_count; rank++) {
    char *line;
    COLL_TRY(train_vocab_merge_line(tokenizer, rank, &line));
    fprintf(text, "%s\n", line);
    free(line);
  }
  return COLL_OK;
}

static coll_status_t save_merges(const train_tokenizer_t *tokenizer, const char *path) {
  char *text = NULL;
  size_t count;
  FILE *stream = open_memstream(&text, &count);
  coll_status_t status = COLL_ERROR_MEMORY;
  if (stream != NULL) {
    status = print_merges(tokenizer, stream);
    if (fclose(stream) != 0) status = COLL_ERROR_MEMORY;
  }
  status = status == COLL_OK ? write_text(path, text, count)
                             : base_fail(status, "out of memory for %s", path);
  free(text);
  return status;
}

coll_status_t train_tokenizer_save(const train_tokenizer_t *tokenizer, const char *path) {
  char vocabulary[PATH_MAX], merges[PATH_MAX];
  if (train_path_ends_in(path, ".json")) return save_json(tokenizer, path);
  COLL_TRY(join_path(path, pairs[0].vocabulary, vocabulary));
  COLL_TRY(join_path(path, pairs[0].merges, merges));
  if (mkdir(path, 0777) != 0 && errno != EEXIST) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create the folder %s", path);
  }
  COLL_TRY(save_vocabulary(tokenizer, vocabulary));
  return save_merges(tokenizer, merges);
}
