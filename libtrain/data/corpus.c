/*
 * In-memory shards are unnamed files. The other ranks of the machine open them through rank 0's
 * /proc/PID/fd and map them like shard files.
 */
#include "libtrain/data/corpus.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"
#include "libtrain/data/encode.h"
#include "libtrain/data/shard_list.h"
#include "libtrain/data/tokenizer_files.h"

#define HELD_OUT_ONE_IN 10
#define CHECKED_TOKENS 512 /* tokens at each end of a shard */

/* Broadcast by rank 0: the paths of its in-memory shards and the amount of text in them. */
typedef struct shared_shards {
  char paths[TRAIN_SPLITS][48];
  uint64_t files[TRAIN_SPLITS], bytes[TRAIN_SPLITS];
} shared_shards_t;

/* ---- shards ---- */

/* Shards of other programs do not identify their tokenizer. Checking their first and last tokens
 * against the vocabulary finds most mismatches. */
static coll_status_t check_shard(const train_shard_t *shard, const train_tokenizer_t *tokenizer,
                                 uint32_t vocabulary) {
  bool other = tokenizer != NULL && shard->tokenizer_digest != tokenizer->digest;
  if (shard->vocabulary != 0 && (other || shard->vocabulary > vocabulary)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s was made with another tokenizer, of %u tokens: give that one with "
                     "--tokenizer (it is stored next to the shards)",
                     shard->name, shard->vocabulary);
  }
  int32_t tokens[CHECKED_TOKENS], targets[CHECKED_TOKENS];
  const train_dataset_t all = {
      .shards = shard, .shard_count = 1, .count = shard->count, .vocabulary = vocabulary};
  if (shard->count < 2) return COLL_OK;
  uint64_t length = shard->count - 1 < CHECKED_TOKENS ? shard->count - 1 : CHECKED_TOKENS;
  COLL_TRY(train_dataset_sequence(&all, 0, (int)length, tokens, targets));
  return train_dataset_sequence(&all, shard->count - 1 - length, (int)length, tokens, targets);
}

static coll_status_t allocate_shards(size_t count, train_corpus_t *corpus) {
  void *shards;
  COLL_TRY(base_alloc(count, sizeof *corpus->shards, "token shards", &shards));
  *corpus = (train_corpus_t){.shards = shards};
  return COLL_OK;
}

static coll_status_t open_shard(const char *path, train_corpus_t *corpus) {
  COLL_TRY(train_shard_open(path, &corpus->shards[corpus->shard_count]));
  corpus->shard_count++;
  return COLL_OK;
}

/* The first `training` shards are the training set, the others the held-out set. */
static void split_by_shard(train_corpus_t *corpus, size_t training, uint32_t vocabulary) {
  corpus->training = (train_dataset_t){.shards = corpus->shards, .vocabulary = vocabulary};
  corpus->held_out =
      (train_dataset_t){.shards = corpus->shards + training, .vocabulary = vocabulary};
  for (size_t i = 0; i < corpus->shard_count; i++) {
    train_dataset_t *split = i < training ? &corpus->training : &corpus->held_out;
    split->count += corpus->shards[i].count;
    split->shard_count++;
    split->files++;
  }
}

/* With all shards in one split, the last tenth of their tokens is held out. */
static void split_by_position(train_corpus_t *corpus, uint32_t vocabulary) {
  split_by_shard(corpus, corpus->shard_count, vocabulary);
  corpus->held_out = corpus->training;
  corpus->held_out.count = corpus->training.count / HELD_OUT_ONE_IN;
  corpus->training.count -= corpus->held_out.count;
  corpus->held_out.first = corpus->training.count;
}

static coll_status_t open_splits(const train_shard_list_t *list, const train_tokenizer_t *tokenizer,
                                 uint32_t vocabulary, train_corpus_t *corpus) {
  size_t training = 0;
  for (int split = 0; split < TRAIN_SPLITS; split++) {
    for (size_t i = 0; i < list->count; i++) {
      if ((int)train_shard_split(list->paths[i]) != split) continue;
      COLL_TRY(open_shard(list->paths[i], corpus));
      COLL_TRY(check_shard(&corpus->shards[corpus->shard_count - 1], tokenizer, vocabulary));
    }
    if (split == TRAIN_SPLIT_TRAINING) training = corpus->shard_count;
  }
  if (training == 0 || training == corpus->shard_count) {
    split_by_position(corpus, vocabulary);
  } else {
    split_by_shard(corpus, training, vocabulary);
  }
  return COLL_OK;
}

static coll_status_t open_shards(const train_shard_list_t *list, const train_tokenizer_t *tokenizer,
                                 uint32_t vocabulary, train_corpus_t *corpus) {
  train_corpus_t opened;
  COLL_TRY(allocate_shards(list->count, &opened));
  coll_status_t status = open_splits(list, tokenizer, vocabulary, &opened);
  if (status != COLL_OK) {
    train_corpus_close(&opened);
    return status;
  }
  *corpus = opened;
  return COLL_OK;
}

/* ---- text ---- */

static coll_status_t agree(const train_group_t *group, coll_status_t status) {
  return group != NULL ? train_group_agree(group, status) : status;
}

static coll_status_t check_same(const train_group_t *group, uint64_t digest, const char *what) {
  return group != NULL ? train_group_check_same(group, digest, what) : COLL_OK;
}

static coll_status_t broadcast_shards(const train_group_t *group, shared_shards_t *shared_shards) {
  if (group == NULL) return COLL_OK;
  coll_status_t status = coll_broadcast(shared_shards, shared_shards, sizeof *shared_shards,
                                        COLL_UINT8, 0, group->comm, NULL);
  return status == COLL_OK ? COLL_OK : base_fail(status, "%s", coll_last_error(group->comm));
}

static coll_status_t encode_local(const char *path, train_tokenizer_t *tokenizer,
                                  const train_progress_t *progress,
                                  train_shard_writer_t writers[TRAIN_SPLITS],
                                  shared_shards_t *shared_shards) {
  train_text_files_t texts;
  COLL_TRY(train_text_files_list(path, &texts));
  coll_status_t status = train_encode_to_memory(&texts, tokenizer, progress, writers);
  for (int split = 0; status == COLL_OK && split < TRAIN_SPLITS; split++) {
    snprintf(shared_shards->paths[split], sizeof shared_shards->paths[split], "/proc/%d/fd/%d",
             (int)getpid(), writers[split].file);
    shared_shards->files[split] = texts.files_of[split];
    shared_shards->bytes[split] = texts.bytes_of[split];
  }
  train_text_files_free(&texts);
  return status;
}

static coll_status_t map_shared_shards(const shared_shards_t *shared_shards, uint32_t vocabulary,
                                       train_corpus_t *corpus) {
  train_corpus_t opened;
  coll_status_t status = COLL_OK;
  COLL_TRY(allocate_shards(TRAIN_SPLITS, &opened));
  for (int split = 0; status == COLL_OK && split < TRAIN_SPLITS; split++) {
    status = open_shard(shared_shards->paths[split], &opened);
  }
  if (status != COLL_OK) {
    train_corpus_close(&opened);
    return base_fail(status,
                     "cannot map the tokens of rank 0 (%s); ranks on several machines need token "
                     "shards: write them with gpt tokenizer encode",
                     base_last_error());
  }
  split_by_shard(&opened, 1, vocabulary);
  train_dataset_t *datasets[TRAIN_SPLITS] = {&opened.training, &opened.held_out};
  for (int split = 0; split < TRAIN_SPLITS; split++) {
    datasets[split]->files = (size_t)shared_shards->files[split];
    datasets[split]->bytes = shared_shards->bytes[split];
  }
  *corpus = opened;
  return COLL_OK;
}

static coll_status_t open_text(const train_group_t *group, const char *path,
                               train_tokenizer_t *tokenizer, uint32_t vocabulary,
                               const train_progress_t *progress, train_corpus_t *corpus) {
  train_shard_writer_t writers[TRAIN_SPLITS] = {{.file = -1}, {.file = -1}};
  train_corpus_t opened = {0};
  shared_shards_t shared_shards = {0};
  coll_status_t status = COLL_OK;
  if (group == NULL || group->rank == 0) {
    status = encode_local(path, tokenizer, progress, writers, &shared_shards);
  }
  status = agree(group, status);
  if (status == COLL_OK) status = broadcast_shards(group, &shared_shards);
  if (status == COLL_OK)
    status = agree(group, map_shared_shards(&shared_shards, vocabulary, &opened));
  for (int split = 0; split < TRAIN_SPLITS; split++) train_shard_writer_close(&writers[split]);
  if (status != COLL_OK) {
    train_corpus_close(&opened);
    return status;
  }
  *corpus = opened;
  return COLL_OK;
}

/* ---- text or shards ---- */

bool train_corpus_is_shards(const char *path) {
  train_shard_list_t list;
  if (train_shard_list_find(path, &list) != COLL_OK) return false;
  bool some = list.count > 0;
  train_shard_list_free(&list);
  return some;
}

/* Files that are named like shards may be none: that is said before a tokenizer is looked for. */
static coll_status_t check_format(const train_shard_list_t *list) {
  for (size_t i = 0; i < list->count; i++) {
    train_shard_t shard;
    COLL_TRY(train_shard_open(list->paths[i], &shard));
    train_shard_close(&shard);
  }
  return COLL_OK;
}

coll_status_t train_corpus_tokenizer(const char *path, train_tokenizer_t **tokenizer) {
  train_shard_list_t list;
  char folder[PATH_MAX];
  COLL_TRY(train_shard_list_find(path, &list));
  snprintf(folder, sizeof folder, "%s", list.count > 0 ? list.paths[0] : "");
  bool some = list.count > 0;
  coll_status_t status = check_format(&list);
  train_shard_list_free(&list);
  *tokenizer = NULL;
  COLL_TRY(status);
  if (!some) return train_tokenizer_create_bytes(tokenizer);
  const char *parent = dirname(folder);
  return train_tokenizer_exists_in(parent) ? train_tokenizer_open(parent, tokenizer) : COLL_OK;
}

coll_status_t train_corpus_open(const train_group_t *group, const char *path,
                                train_tokenizer_t *tokenizer, int vocabulary,
                                const train_progress_t *progress, train_corpus_t *corpus) {
  train_shard_list_t list = {0};
  coll_status_t status = agree(group, train_shard_list_find(path, &list));
  if (status == COLL_OK) status = check_same(group, list.count, "shards at --data");
  if (status == COLL_OK && list.count > 0) {
    status = agree(group, open_shards(&list, tokenizer, (uint32_t)vocabulary, corpus));
  } else if (status == COLL_OK) {
    status = open_text(group, path, tokenizer, (uint32_t)vocabulary, progress, corpus);
  }
  train_shard_list_free(&list);
  return status;
}

void train_corpus_close(train_corpus_t *corpus) {
  for (size_t i = 0; i < corpus->shard_count; i++) train_shard_close(&corpus->shards[i]);
  free(corpus->shards);
  *corpus = (train_corpus_t){0};
}

coll_status_t train_corpus_check(const train_corpus_t *corpus, int context) {
  if (train_dataset_windows(&corpus->training, context) > 0 &&
      train_dataset_windows(&corpus->held_out, context) > 0) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "context %d is longer than the data: %llu tokens to train on and %llu held out; "
                   "lower --context or give more text",
                   context, (unsigned long long)corpus->training.count,
                   (unsigned long long)corpus->held_out.count);
}

uint64_t train_corpus_digest(const train_corpus_t *corpus) {
  uint64_t digest = train_random_digest(0, &corpus->training.count, sizeof(uint64_t));
  digest = train_random_digest(digest, &corpus->held_out.count, sizeof(uint64_t));
  for (size_t i = 0; i < corpus->shard_count; i++) {
    const uint64_t words[] = {corpus->shards[i].count, corpus->shards[i].tokenizer_digest};
    digest = train_random_digest(digest, words, sizeof words);
  }
  return digest;
}
