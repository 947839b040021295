/*
 * The metadata of a checkpoint: model sizes, training progress, the settings with which the run
 * must be resumed, and the tokenizer, so that a checkpoint is self-contained.
 */
#ifndef LIBTRAIN_FILES_METADATA_H
#define LIBTRAIN_FILES_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include "libtrain/common/precision.h"
#include "libtrain/loss_scale.h"
#include "libtrain/model/layout.h"

#define TRAIN_SETTINGS_MAX 32
#define TRAIN_FILE_SETTINGS_MAX 16 /* maximum in a file; a program adds its own */
#define TRAIN_TOKENIZER_BYTES_MAX ((size_t)64 << 20)

/* Progress of a run; all 0 at its beginning. The same whatever the layout of the ranks. */
typedef struct train_position {
  uint64_t step;      /* steps taken */
  uint64_t skipped;   /* of these, steps that did not update the parameters (trainer.h) */
  uint64_t tokens;    /* trained on, summed over all ranks */
  uint64_t sequences; /* taken from the shuffled order; the index of the next one */
  uint64_t seed;      /* of the initial weights and of the shuffled order */
} train_position_t;

/* A setting that must not change when the run is resumed: "batch" "512". */
typedef struct train_setting {
  char name[24];
  char value[104];
} train_setting_t;

typedef struct train_metadata {
  train_model_config_t config;
  train_precision_t precision; /* of the run; files of every precision store float32 */
  train_position_t position;
  train_loss_scale_t loss_scale; /* of the next step; scale 0: not stored, the run does not scale */
  bool moments; /* the optimizer's two moments are stored; otherwise they read as zeros */
  train_setting_t settings[TRAIN_SETTINGS_MAX];
  int setting_count;
  char *tokenizer; /* contents of tokenizer.json, allocated with malloc; NULL for none */
  size_t tokenizer_bytes;
} train_metadata_t;

/* Frees the tokenizer. */
void train_metadata_free(train_metadata_t *metadata);

/* Replaces the tokenizer with a copy of bytes[count]; removes it if count is 0. COLL_ERROR_INVALID:
 * more than TRAIN_TOKENIZER_BYTES_MAX. */
coll_status_t train_metadata_set_tokenizer(train_metadata_t *metadata, const char *bytes,
                                           size_t count);

/* Adds or replaces a setting. The name must be shorter than 24 and the value than 104
 * characters. */
void train_metadata_set(train_metadata_t *metadata, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a setting; NULL if it is not set. */
const char *train_metadata_get(const train_metadata_t *metadata, const char *name);

/* COLL_ERROR_INVALID if a setting of `saved` differs in `now` or is missing there. The message
 * names the setting, both values and `path`, from which `saved` was read. */
coll_status_t train_metadata_check(const char *path, const train_metadata_t *saved,
                                   const train_metadata_t *now);

/* Converts everything but the tokenizer to JSON text, which the caller frees, and back. from_json
 * checks the sizes; its COLL_ERROR_INVALID messages contain no path. */
coll_status_t train_metadata_to_json(const train_metadata_t *metadata, char **text);
coll_status_t train_metadata_from_json(const char *text, size_t count, train_metadata_t *metadata);

#endif
