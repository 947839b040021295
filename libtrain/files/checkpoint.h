/*
 * The checkpoint format: one file with metadata, the parameters, AdamW's two moments as
 * little-endian float32, and digests of all of it. It does not depend on how the model is
 * partitioned over ranks, so a run can be resumed with any number of ranks and any ZeRO stage.
 * Files are replaced atomically: a process killed at any time leaves either the old or the new file
 * intact.
 *
 *     "collgpt\0"  uint32 version = 3  uint32 number of arrays, 1 or 3
 *     uint64 elements per array  uint64 bytes of metadata  uint64 bytes of tokenizer
 *     the metadata as JSON text (files/metadata.h), then the tokenizer
 *     zeros up to a multiple of 64
 *     the arrays: parameters, first moments, second moments
 *     uint64 digest (files/digest.h) of every chunk of every array; a chunk has TRAIN_CHUNK
 *     elements, the last one of an array may be shorter
 *     uint64 digest of everything outside of the arrays
 */
#ifndef LIBTRAIN_FILES_CHECKPOINT_H
#define LIBTRAIN_FILES_CHECKPOINT_H

#include "libtrain/files/format.h"

extern const train_format_t train_format_checkpoint;

/* COLL_ERROR_SYSTEM names the path if a checkpoint cannot be written there. Leaves no file. */
coll_status_t train_checkpoint_probe(const char *path);

/* Replaces the file at `path` atomically. On failure the old file is unchanged and no temporary
 * file is left. If reading the flat space is collective, all ranks call this with the same
 * metadata, and only rank 0 passes a path. All ranks then make the same reads in the same order:
 * the parameters and, if metadata->moments, the first and the second moments, TRAIN_CHUNK elements
 * at a time. A write error, such as a full disk, does not end the reads early on any rank. The
 * ranks must then agree on the status. */
coll_status_t train_checkpoint_write(const char *path, const train_metadata_t *metadata,
                                     const train_flat_t *flat);

#endif
