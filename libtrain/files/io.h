/*
 * Files of models on disk: read at a place, and written so that they appear whole or not at all. A
 * file is written beside its place, synced and renamed, so that whoever is killed or runs out of
 * disk at any moment leaves what was there before.
 */
#ifndef LIBTRAIN_FILES_IO_H
#define LIBTRAIN_FILES_IO_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian; a big-endian machine needs to swap here"
#endif

/* ---- reading */

typedef struct train_input {
  int file;
  uint64_t bytes; /* its length */
  char path[PATH_MAX];
} train_input_t;

/* Opens a regular file. COLL_ERROR_SYSTEM or COLL_ERROR_INVALID names the path. */
coll_status_t train_input_open(const char *path, train_input_t *input);
void train_input_close(train_input_t *input);

/* The file's bytes offset .. offset + count - 1. COLL_ERROR_INVALID: it ends before. */
coll_status_t train_input_read(const train_input_t *input, uint64_t offset, size_t count,
                               void *bytes);

/* All of a file of at most `most` bytes in new memory that the caller frees, ended by a 0 that
 * *count leaves out. COLL_ERROR_INVALID: it is longer. */
coll_status_t train_input_read_all(const char *path, size_t most, char **bytes, size_t *count);

/* ---- writing */

typedef struct train_output {
  int file;         /* -1: takes bytes and writes them nowhere */
  int error;        /* errno of the first failure; what comes later is dropped */
  uint64_t written; /* bytes taken */
  char path[PATH_MAX], aside[PATH_MAX];
} train_output_t;

/* Starts the file that shall be at `path`; where that is a symbolic link, at what it points to.
 * Only one program at a time can write it, as far as the file system has locks. With NULL all of it
 * works and nothing is written. A failure, here and in what follows, is kept until the end, so that
 * a writer goes its way in any case. */
void train_output_open(const char *path, train_output_t *output);

/* Appends. */
void train_output_write(train_output_t *output, const void *bytes, size_t count);

/* Puts the file in its place and closes it. COLL_ERROR_SYSTEM when any of it failed: the sentence
 * names the path, the place is as it was and nothing is left beside it. */
coll_status_t train_output_commit(train_output_t *output);

/* Closes without putting anything in its place. */
void train_output_discard(train_output_t *output);

/* COLL_ERROR_SYSTEM, naming the path, when no file can be started there; leaves nothing. */
coll_status_t train_output_probe(const char *path);

/* ---- names */

/* Whether the path ends in `end` and has something before it. */
bool train_path_ends_in(const char *path, const char *end);

#endif
