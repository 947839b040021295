/*
 * Token shards: files of 16-bit tokens as llm.c reads and writes them. A header of 256 32-bit words
 * (magic number 20240520, version 1, the count of tokens) is followed by the tokens. Of the words
 * that llm.c leaves unused, three tell which tokenizer made the shard.
 */
#ifndef LIBTRAIN_DATA_SHARD_H
#define LIBTRAIN_DATA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/texts.h"
#include "libtrain/data/tokenizer.h"

/* ---- reading */

typedef struct train_shard {
  const uint16_t *tokens; /* [count], mapped: a page is read when it is touched */
  uint64_t count;
  uint32_t vocabulary;       /* of the tokenizer; 0 when the shard does not say */
  uint64_t tokenizer_digest; /* of it */
  char *name;                /* the path, for sentences */
  size_t mapped_bytes;
} train_shard_t;

/* Maps the shard at `path`. COLL_ERROR_INVALID names it: not a shard, one of another version or of
 * 32-bit tokens, cut short or padded. A file that is cut short while it is mapped ends the
 * program. */
coll_status_t train_shard_open(const char *path, train_shard_t *shard);
void train_shard_close(train_shard_t *shard);

/* Whether the file begins as a token shard, of 16 or 32 bits. */
bool train_shard_is_one(const char *path);

/* ---- writing */

#define TRAIN_SHARD_TOKENS_MOST INT32_MAX

/* Writes the tokens of one side into shards one after the other. */
typedef struct train_shard_writer {
  const train_tokenizer_t *tokenizer;
  const char *folder; /* NULL: into one shard in memory */
  train_side_t side;
  uint64_t tokens_most; /* in a shard */
  uint64_t tokens;      /* in all shards */
  int shards;           /* how many there are */
  int file;             /* the shard under way, or the one in memory; -1 */
  uint64_t count;       /* tokens in it */
  uint16_t *buffer;     /* those not written yet */
  size_t buffered;
} train_shard_writer_t;

/* Writes go to folder/train_000000.bin and so on, or val_... for what is held out, which must not
 * be there. With NULL for the folder they go to a file without a name; it is there as long as
 * writer->file is open, and for all who map it. 1 <= tokens_most <= TRAIN_SHARD_TOKENS_MOST. */
coll_status_t train_shard_writer_open(const train_tokenizer_t *tokenizer, const char *folder,
                                      train_side_t side, uint64_t tokens_most,
                                      train_shard_writer_t *writer);

/* COLL_ERROR_SYSTEM names the file that cannot be written. COLL_ERROR_UNSUPPORTED: too much for
 * memory's one shard. */
coll_status_t train_shard_writer_add(train_shard_writer_t *writer, const train_ids_t *ids);

/* Completes the last shard, on the disk too; a side without tokens gets an empty one. */
coll_status_t train_shard_writer_finish(train_shard_writer_t *writer);

/* Frees everything, the file in memory too. Shards in a folder stay. */
void train_shard_writer_close(train_shard_writer_t *writer);

#endif
