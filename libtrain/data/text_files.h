/*
 * The text files below a path and their split into training and held-out data. The split of a file
 * depends only on its path relative to the folder, so adding or removing files never moves another
 * file to the other split.
 */
#ifndef LIBTRAIN_DATA_TEXT_FILES_H
#define LIBTRAIN_DATA_TEXT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "libtrain/data/progress.h"

typedef enum train_split { TRAIN_SPLIT_TRAINING, TRAIN_SPLIT_HELD_OUT, TRAIN_SPLITS } train_split_t;

typedef struct train_text_file {
  char *path;
  uint64_t bytes;
  uint64_t held_out_from; /* bytes before this offset are training data, the rest is held out */
} train_text_file_t;

typedef struct train_text_files {
  train_text_file_t *files; /* [count], sorted by path */
  size_t count, capacity;
  size_t files_of[TRAIN_SPLITS];   /* number of files with text of each split */
  uint64_t bytes_of[TRAIN_SPLITS]; /* bytes of each split */
} train_text_files_t;

/* Lists all text files at `path`, a file or a folder. One file in ten is held out. If that leaves a
 * split empty, as with a single file, the last tenth of all bytes is held out instead. Links to
 * folders, unreadable files, empty files and files with a zero byte are skipped. COLL_ERROR_INVALID
 * when no file is left. Reads every file once. */
coll_status_t train_text_files_list(const char *path, train_text_files_t *texts);
void train_text_files_free(train_text_files_t *texts);

/* Whether the file with this path relative to the folder is held out. */
bool train_text_is_held_out(const char *relative_path);

/* Part of a file. Files longer than a few megabytes are read in several chunks. Chunks end at word
 * boundaries, so encoding them one by one gives the same tokens. */
typedef struct train_text_chunk {
  const uint8_t *bytes; /* [count], valid during the call */
  size_t count;
  train_split_t split;
  bool is_last; /* the last chunk of the file */
} train_text_chunk_t;

/* A failure stops the reading. */
typedef coll_status_t (*train_text_visit_t)(void *context, const train_text_chunk_t *chunk);

/* Calls `visit` for all text in the order of the files, each with the length it had when it was
 * listed, and reports progress in bytes. COLL_ERROR_SYSTEM names a file that cannot be read any
 * more. */
coll_status_t train_text_files_read(const train_text_files_t *texts, train_text_visit_t visit,
                                    void *context, const train_progress_t *progress);

#endif
