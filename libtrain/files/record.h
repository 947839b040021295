/*
 * What is kept of a run beside its arrays: the model's sizes, how far training has come, the
 * settings it has to go on with, and the tokenizer, so that a checkpoint is enough by itself.
 */
#ifndef LIBTRAIN_FILES_RECORD_H
#define LIBTRAIN_FILES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "libtrain/model/layout.h"

#define TRAIN_SETTINGS_MAX 32
#define TRAIN_SETTINGS_KEPT 16 /* in a file, at most; a program adds its own */
#define TRAIN_TOKENIZER_BYTES_MAX ((size_t)64 << 20)

/* How far a run has come; all 0 at its beginning. */
typedef struct train_position {
  uint64_t step;        /* optimizer steps taken */
  uint64_t micro_steps; /* micro-batches computed in them, on each rank */
  uint64_t tokens;      /* trained on, over all ranks */
  uint64_t sequences;   /* taken from the order of the data: the next one's number */
  uint64_t seed;        /* of the weights and of that order */
} train_position_t;

/* Something that a run must go on with as it began: "batch" "512". */
typedef struct train_setting {
  char name[24];
  char value[104];
} train_setting_t;

typedef struct train_record {
  train_model_config_t config;
  train_position_t position;
  bool moments; /* the optimizer's two moments are kept; else they read as zeros */
  train_setting_t settings[TRAIN_SETTINGS_MAX];
  int setting_count;
  char *tokenizer; /* the bytes of its tokenizer.json, from malloc; NULL for none */
  size_t tokenizer_bytes;
} train_record_t;

/* Frees the tokenizer. */
void train_record_free(train_record_t *record);

/* Takes a copy of the tokenizer's bytes, in place of the one it has; none when count is 0.
 * COLL_ERROR_INVALID: more than TRAIN_TOKENIZER_BYTES_MAX. */
coll_status_t train_record_set_tokenizer(train_record_t *record, const char *bytes, size_t count);

/* Sets a setting, a new one or one that it has. The name is shorter than 24 and the value than 104
 * characters. */
void train_record_set(train_record_t *record, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The setting's value, NULL when it has none of that name. */
const char *train_record_get(const train_record_t *record, const char *name);

/* COLL_ERROR_INVALID when a setting of both has different values or only `saved` has it; the
 * sentence names it, both values and `path`, where `saved` is from. */
coll_status_t train_record_check(const char *path, const train_record_t *saved,
                                 const train_record_t *now);

/* All but the tokenizer as a JSON text in new memory that the caller frees, and back. The latter
 * gives COLL_ERROR_INVALID without a path in its sentence, and checks the sizes. */
coll_status_t train_record_to_json(const train_record_t *record, char **text);
coll_status_t train_record_from_json(const char *text, size_t count, train_record_t *record);

#endif
