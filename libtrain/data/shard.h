/*
 * Token shards: files of 16-bit tokens in the format of llm.c. A header of 256 32-bit words (magic
 * number 20240520, version 1, number of tokens) is followed by the tokens. Three header words that
 * llm.c leaves unused identify the tokenizer.
 */
#ifndef LIBTRAIN_DATA_SHARD_H
#define LIBTRAIN_DATA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/text_files.h"
#include "libtrain/data/tokenizer.h"

/* ---- reading */

typedef struct train_shard {
  const uint16_t *tokens; /* [count], memory-mapped: a page is read when it is first accessed */
  uint64_t count;
  uint32_t vocabulary;       /* size of the tokenizer's vocabulary; 0 when the header does not state
                              * it */
  uint64_t tokenizer_digest; /* digest of the tokenizer */
  char *name;                /* the path, for messages */
  size_t mapped_bytes;
} train_shard_t;

/* Maps the shard at `path`. COLL_ERROR_INVALID names the file: not a shard, another version, 32-bit
 * tokens, truncated, or longer than its header says. Truncating the file while it is mapped ends
 * the process with SIGBUS. */
coll_status_t train_shard_open(const char *path, train_shard_t *shard);
void train_shard_close(train_shard_t *shard);

/* Whether the file starts with the magic number of a token shard, of 16 or 32 bits. */
bool train_shard_detect(const char *path);

/* ---- writing */

#define TRAIN_SHARD_TOKENS_MAX INT32_MAX

/* Writes the tokens of one split into consecutive shards. */
typedef struct train_shard_writer {
  const train_tokenizer_t *tokenizer;
  const char *folder; /* NULL: one in-memory shard */
  train_split_t split;
  uint64_t max_tokens; /* per shard */
  uint64_t tokens;     /* in all shards */
  int shards;          /* shards started so far */
  int file;            /* the shard being written, or the in-memory one; -1 */
  uint64_t count;      /* tokens in that shard */
  uint16_t *buffer;    /* tokens not written yet */
  size_t buffered;
} train_shard_writer_t;

/* Starts writing to folder/train_000000.bin and so on, or val_... for the held-out split; these
 * files must not exist. With folder == NULL the shard is an unnamed file in memory, which exists
 * while writer->file is open or mapped by anyone. 1 <= max_tokens <= TRAIN_SHARD_TOKENS_MAX. */
coll_status_t train_shard_writer_open(const train_tokenizer_t *tokenizer, const char *folder,
                                      train_split_t split, uint64_t max_tokens,
                                      train_shard_writer_t *writer);

/* COLL_ERROR_SYSTEM names the file that cannot be written. COLL_ERROR_UNSUPPORTED: too many tokens
 * for the single in-memory shard. */
coll_status_t train_shard_writer_add(train_shard_writer_t *writer, const train_ids_t *ids);

/* Writes the header of the last shard and syncs it. A split without tokens gets one empty shard. */
coll_status_t train_shard_writer_finish(train_shard_writer_t *writer);

/* Frees everything, including the in-memory shard. Shards in a folder stay. */
void train_shard_writer_close(train_shard_writer_t *writer);

#endif
