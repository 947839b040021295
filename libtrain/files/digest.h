/*
 * A 64-bit digest that detects corruption of files at memory speed. It is not cryptographic.
 */
#ifndef LIBTRAIN_FILES_DIGEST_H
#define LIBTRAIN_FILES_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The digest of bytes[count], continued from `digest`; start with 0. The result depends on how the
 * bytes are divided among calls. */
uint64_t train_digest(uint64_t digest, const void *bytes, size_t count);

#endif
