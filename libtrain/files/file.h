/*
 * A model in a file, whatever its format: checkpoints of our own, Hugging Face's safetensors, the
 * model files of llm.c. A format is one row of a table; it is told by what is in a file that is
 * read, and by the name of one that is to be written.
 */
#ifndef LIBTRAIN_FILES_FILE_H
#define LIBTRAIN_FILES_FILE_H

#include "libtrain/files/flat.h"
#include "libtrain/files/io.h"
#include "libtrain/files/record.h"

/* An opened file. Elements are read from the disk as they are asked for, in any order, by as many
 * ranks as like to; a read that meets damage fails with COLL_ERROR_INVALID and names the file. */
typedef struct train_file {
  const struct train_format *format;
  train_record_t record;  /* position and moments are empty where the format has none */
  train_layout_t *layout; /* of record.config */
  train_flat_t flat;
  train_input_t input;
} train_file_t;

typedef struct train_format {
  const char *name;  /* "checkpoint", "safetensors", "llm.c model" */
  const char *names; /* what it is written to: "*.ckpt" */
  bool keeps_run;    /* the record's position, moments and settings */
  bool keeps_tokenizer;

  /* Whether it is this format: `start` holds the first bytes of the file, none of a folder. */
  bool (*recognizes)(const char *path, bool folder, const uint8_t *start, size_t count);

  /* Whether a file of that name is to be written in this format. */
  bool (*claims)(const char *path);

  /* Fills *file, which is zeroed but for its format and an input that is open unless `path` is a
   * folder. close frees flat.context, after a failure too; train_file_close frees the rest. */
  coll_status_t (*open)(const char *path, train_file_t *file);
  void (*close)(train_file_t *file);

  /* Writes a model, whole or not at all. What the format has no room for is left out. */
  coll_status_t (*write)(const char *path, const train_record_t *record, const train_flat_t *flat);
} train_format_t;

/* The model at `path`, a file or a folder. COLL_ERROR_INVALID says what is wrong with it. */
coll_status_t train_file_open(const char *path, train_file_t **file);
void train_file_close(train_file_t *file);

/* All of its parameters, [layout's parameter_count], in new memory that the caller frees. */
coll_status_t train_file_parameters(const train_file_t *file, float **parameters);

/* The format that a name asks for; COLL_ERROR_INVALID lists the names there are. */
coll_status_t train_format_of(const char *path, const train_format_t **format);

#endif
