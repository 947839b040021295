/*
 * Reading and atomic writing of files. A file is written under a temporary name next to its
 * destination, synced and renamed, so a crash or a full disk at any time leaves the old file
 * unchanged.
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
  uint64_t bytes; /* file size */
  char path[PATH_MAX];
} train_input_t;

/* Opens a regular file. COLL_ERROR_SYSTEM or COLL_ERROR_INVALID names the path. */
coll_status_t train_input_open(const char *path, train_input_t *input);
void train_input_close(train_input_t *input);

/* Reads bytes offset .. offset + count - 1. COLL_ERROR_INVALID: the file ends before that. */
coll_status_t train_input_read(const train_input_t *input, uint64_t offset, size_t count,
                               void *bytes);

/* Reads a file of at most `max` bytes into zero-terminated memory that the caller frees. The zero
 * is not in *count. COLL_ERROR_INVALID: the file is longer. */
coll_status_t train_input_read_all(const char *path, size_t max, char **bytes, size_t *count);

/* ---- writing */

typedef struct train_output {
  int file;         /* -1: accepts bytes without writing them */
  bool joined;      /* another process created the file and replaces the old one */
  int error;        /* errno of the first failure; later bytes are dropped */
  uint64_t written; /* bytes accepted */
  char path[PATH_MAX], temporary[PATH_MAX];
} train_output_t;

/* Starts writing the file at `path` or, if that is a symbolic link, at its target. A lock prevents
 * two programs from writing it at the same time, if the file system supports locks. With path ==
 * NULL nothing is written. Errors here and in train_output_write are reported by
 * train_output_commit, so callers need not handle them in between. */
void train_output_open(const char *path, train_output_t *output);

/* Appends. */
void train_output_write(train_output_t *output, const void *bytes, size_t count);

/* Renames the file to its destination and closes it. COLL_ERROR_SYSTEM names the path if any
 * operation failed; the old file is then unchanged and no temporary file is left. */
coll_status_t train_output_commit(train_output_t *output);

/* Closes and removes the temporary file. */
void train_output_discard(train_output_t *output);

/* COLL_ERROR_SYSTEM names the path if no file can be created there. Leaves no file. */
coll_status_t train_output_probe(const char *path);

/* ---- one file, several writers

 * The process that opens the output passes an invitation to the others, by which they find its
 * temporary file if they have the same file system. All write to different places. When the others
 * have synced what they wrote, the first commits; then the others discard their outputs, which only
 * closes them. */

typedef struct train_output_invitation {
  uint64_t mark[2]; /* random; the first bytes of the file until they are overwritten */
  char path[PATH_MAX], temporary[PATH_MAX];
} train_output_invitation_t;

/* Marks the file that this process opened, and describes it. Failures are reported by commit. */
void train_output_invite(train_output_t *output, train_output_invitation_t *invitation);

/* Opens the file if this process sees it; otherwise false, and *output accepts bytes without
 * writing them. Discarding such an output removes the temporary file only if the process that
 * created it has died without committing. */
bool train_output_join(const train_output_invitation_t *invitation, train_output_t *output);

/* Writes at an offset. Errors are reported by commit. */
void train_output_write_at(train_output_t *output, uint64_t offset, const void *bytes,
                           size_t count);

/* Makes what this process wrote durable. Errors are reported by train_output_status. */
void train_output_sync(train_output_t *output);

/* The error that a commit would report; COLL_OK if there is none so far. */
coll_status_t train_output_status(const train_output_t *output);

/* ---- paths */

/* Whether the path ends in `end` and is longer than it. */
bool train_path_ends_in(const char *path, const char *end);

#endif
