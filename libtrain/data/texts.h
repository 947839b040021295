/*
 * The text files at a path, and which of them are held out of training. A file's side depends on
 * its path below the folder alone, so it never moves from one to the other as files come and go.
 */
#ifndef LIBTRAIN_DATA_TEXTS_H
#define LIBTRAIN_DATA_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "libtrain/data/watch.h"

typedef enum train_side { TRAIN_TRAINING, TRAIN_HELD_OUT, TRAIN_SIDES } train_side_t;

typedef struct train_text_file {
  char *path;
  uint64_t bytes;
  uint64_t held_out_from; /* trained on before this byte, held out from it on */
} train_text_file_t;

typedef struct train_texts {
  train_text_file_t *files; /* [count], in the order of their paths */
  size_t count, capacity;
  size_t files_of[TRAIN_SIDES];   /* files with text of that side */
  uint64_t bytes_of[TRAIN_SIDES]; /* and how much */
} train_texts_t;

/* All text files at `path`, a file or a folder. One in ten is held out; where that leaves a side
 * empty, as with a single file, the last tenth of all bytes is. Links to folders, files that cannot
 * be read, empty ones and those with a byte 0 are passed over. COLL_ERROR_INVALID when none is
 * left. Every file is read once to find this out. */
coll_status_t train_texts_list(const char *path, train_texts_t *texts);
void train_texts_free(train_texts_t *texts);

/* Whether a file with this path below the folder is held out. */
bool train_text_is_held_out(const char *relative_path);

/* Part of a file. Files longer than a few megabytes come in several pieces, cut where words are cut
 * in any case, so that a tokenizer sees no difference. */
typedef struct train_text_piece {
  const uint8_t *bytes; /* [count], valid during the call */
  size_t count;
  train_side_t side;
  bool ends; /* the file ends with it */
} train_text_piece_t;

/* A failure ends the reading. */
typedef coll_status_t (*train_text_visit_t)(void *context, const train_text_piece_t *piece);

/* Visits all text in the order of the files, each as long as it was when it was listed, and tells
 * the watch bytes. COLL_ERROR_SYSTEM names a file that cannot be read any more. */
coll_status_t train_texts_read(const train_texts_t *texts, train_text_visit_t visit, void *context,
                               const train_watch_t *watch);

#endif
