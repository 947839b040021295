/*
 * Structs that functions of coll.h fill in. Their first field is their size, as the program was
 * compiled: later versions of the library may have more fields.
 */
#ifndef API_OUT_H
#define API_OUT_H

#include <stddef.h>

#include "base/status.h"

/* Whether the caller has set the size of its struct. COLL_ERROR_INVALID names the function and the
 * macro to start from. */
coll_status_t api_out_check(const void *out, const char *function, const char *init);

/* Fills in what the caller's struct has of `made`, whose size is `bytes`. */
void api_out_fill(void *out, const void *made, size_t bytes);

#endif
