/* Creates safetensors files byte by byte. */
#ifndef TESTS_LIBTRAIN_FILES_CONTAINER_H
#define TESTS_LIBTRAIN_FILES_CONTAINER_H

#include <stdint.h>

#include "libtrain/folder.h"

/* Writes the file `name`: `claimed` as the header length, the header, the data. */
const char *container_write(const folder_t *folder, const char *name, uint64_t claimed,
                            const char *header, const void *data, size_t data_bytes);

#endif
