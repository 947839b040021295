/*
 * The checkpoint format: one file with metadata, the parameters, AdamW's two moments as
 * little-endian float32, and digests of all of it. It does not depend on how the model is divided
 * over ranks or on which ranks wrote it, so a run can be resumed in any layout, and equal models
 * have equal files. Files are replaced atomically: a process killed at any time leaves either the
 * old or the new file intact.
 *
 *     "collgpt\0"  uint32 version = 4  uint32 number of arrays, 1 or 3
 *     uint64 elements per array  uint64 bytes of metadata  uint64 bytes of tokenizer
 *     uint64 chunks per array
 *     the metadata as JSON text (files/metadata.h), then the tokenizer
 *     zeros up to a multiple of 64
 *     the arrays: parameters, first moments, second moments, in the flat space of model/layout.h
 *     uint64 digest of every chunk of every array, in the same order
 *     uint64 digest of everything outside of the arrays (train_digest)
 *
 * A chunk is a part of a tensor, of TRAIN_CHECKPOINT_CHUNK elements or fewer at the tensor's end.
 * Its digest is the sum of hashes of its elements and their indices in the tensor
 * (train_digest_elements), which many ranks can compute together. The sum of its chunks' digests is
 * the digest of a tensor.
 *
 * Files of version 3 can be read. They have one chunk per 2^20 elements of an array, whichever
 * tensors these belong to, with the digest train_digest, and do not store the number of chunks.
 */
#ifndef LIBTRAIN_FILES_CHECKPOINT_H
#define LIBTRAIN_FILES_CHECKPOINT_H

#include "libtrain/files/format.h"
#include "libtrain/files/pieces.h"

extern const train_format_t train_format_checkpoint;

/* COLL_ERROR_SYSTEM names the path if a checkpoint cannot be written there. Leaves no file. */
coll_status_t train_checkpoint_probe(const char *path);

/* Replaces the file at `path` atomically with a model that this process has alone; ranks use
 * train_checkpoint_save (parallel/save.h). On failure the old file is unchanged and no temporary
 * file is left. */
coll_status_t train_checkpoint_write(const char *path, const train_metadata_t *metadata,
                                     const train_pieces_t *pieces);

#endif
