/* Creates token shards for tests. */
#ifndef TESTS_LIBTRAIN_DATA_SHARDS_H
#define TESTS_LIBTRAIN_DATA_SHARDS_H

#include "../folder.h"

/* Writes a shard like llm.c with the tokens first, first + 1, ... (modulo 2^16); returns its
 * path. */
const char *shards_write(const folder_t *folder, const char *name, int first, int count);

#endif
