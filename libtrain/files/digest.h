/*
 * A 64-bit digest that finds damage in files at memory speed. It is no defence against somebody who
 * means to deceive.
 */
#ifndef LIBTRAIN_FILES_DIGEST_H
#define LIBTRAIN_FILES_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The digest of bytes[count], continued from `digest`; start from 0. The same bytes in other
 * portions give another digest. */
uint64_t train_digest(uint64_t digest, const void *bytes, size_t count);

#endif
