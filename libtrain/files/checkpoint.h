/*
 * A checkpoint: one file with a record of the run, the parameters and AdamW's two moments as
 * little-endian float32, and digests over all of it. It knows nothing of how a model is spread over
 * ranks, so it goes on with any number of them and any stage. A run killed at any moment leaves the
 * old file or the new one whole.
 *
 *     "collgpt\0"  uint32 version = 3  uint32 arrays, 1 or 3
 *     uint64 elements of an array  uint64 bytes of the record  uint64 bytes of the tokenizer
 *     the record, a JSON text (files/record.h), and the tokenizer
 *     zeros up to a multiple of 64
 *     the arrays: parameters, first moments, second moments
 *     uint64 digest (files/digest.h) of every chunk of an array: TRAIN_PIECE elements, the last of
 *     an array shorter
 *     uint64 digest of all that is not in the arrays
 */
#ifndef LIBTRAIN_FILES_CHECKPOINT_H
#define LIBTRAIN_FILES_CHECKPOINT_H

#include "libtrain/files/file.h"

extern const train_format_t train_format_checkpoint;

/* COLL_ERROR_SYSTEM, naming the path, when a checkpoint cannot be written there; leaves nothing. */
coll_status_t train_checkpoint_probe(const char *path);

/* Replaces the file at `path`. On failure it is as it was, and nothing is left beside it. Where
 * reading the flat space takes all ranks, all call this with the same record and rank 0 alone with
 * a path: each reads the same pieces in the same order, parameters first, and with moments the
 * first and the second, TRAIN_PIECE elements at a time. A disk that is full, or a path that
 * cannot be written, ends nobody's reading early; the ranks have to agree on the outcome. */
coll_status_t train_checkpoint_write(const char *path, const train_record_t *record,
                                     const train_flat_t *flat);

#endif
