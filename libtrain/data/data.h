/*
 * Training text: the bytes of a file or of every text file below a folder, split file by file into
 * what is trained on and what is held out. A file's part depends on its path below the folder
 * alone, so it never moves from one side to the other as files come and go.
 */
#ifndef LIBTRAIN_DATA_H
#define LIBTRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_BYTE_VOCABULARY 256

/* Files follow one another in the order of their paths, each ended by this byte. A file that
 * contains it is no text and is left out. */
#define TRAIN_END_OF_FILE 0

/* One side of the split. */
typedef struct train_text {
  uint8_t *bytes; /* [count] */
  size_t count, capacity;
  size_t files;
} train_text_t;

typedef struct train_data {
  train_text_t training, held_out;
} train_data_t;

/* Reads all text at `path`, a file or a folder. One file in ten is held out; where that leaves a
 * side empty, as with a single file, the last tenth of the bytes is. Fails with a sentence when
 * nothing can be read; a folder's unreadable, empty and non-text files are passed over. */
coll_status_t train_data_load(const char *path, train_data_t *data);
void train_data_free(train_data_t *data);

/* Whether a file with this path below the data folder is held out. */
bool train_data_is_held_out(const char *relative_path);

/* COLL_ERROR_INVALID when either side is too short for one sequence of `context` bytes. */
coll_status_t train_data_check(const train_data_t *data, int context);

/* Where global row `row` of global step `step` starts in a text of `count` bytes: a random place
 * that leaves room for a sequence of `length` bytes and the byte after it. */
size_t train_data_offset(uint64_t seed, uint64_t step, int batch, int row, size_t count,
                         int length);

/* The sequence at `offset` and, one byte further, what is to be predicted: [length] each. */
void train_data_sequence(const train_text_t *text, size_t offset, int length, int32_t *tokens,
                         int32_t *targets);

#endif
