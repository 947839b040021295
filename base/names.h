/* The public enumerations in words, both ways. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

/* NULL outside the enumeration. */
const char *base_collective_name(coll_collective_t collective);
const char *base_dtype_name(coll_dtype_t dtype);
const char *base_op_name(coll_op_t op);

size_t base_dtype_bytes(coll_dtype_t dtype); /* 0 outside the enumeration */

/* Whether the collective has a root; whether it reduces. */
bool base_collective_is_rooted(coll_collective_t collective);
bool base_collective_reduces(coll_collective_t collective);

/* COLL_ERROR_INVALID names the nearest. */
coll_status_t base_collective_find(const char *name, coll_collective_t *collective);

#endif
