/*
 * Figures that were measured on this machine, kept for later processes: named whole numbers in one
 * small text file in $XDG_CACHE_HOME/libcoll or ~/.cache/libcoll. The file's name and its first
 * lines say for which processor, caches, number of cores, version of the library and kind of build
 * the figures hold, and for which `variant` (instructions, say); anything else is measured anew. A
 * file that is missing, foreign or cannot be written is no error: it costs time only.
 */
#ifndef TOPO_COST_CACHE_H
#define TOPO_COST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPO_COST_CACHE_MAX 128 /* figures in a file */

/* Values of all the names, each within 0..INT64_MAX; false, and nothing set, where one is missing
 * or the file is not as it was written. Names are words without spaces. */
bool topo_cost_cache_load(const char *variant, const char *const names[], size_t count,
                          int64_t values[]);

/* Adds them to what is kept, in the place of older values of the same names. */
void topo_cost_cache_save(const char *variant, const char *const names[], size_t count,
                    const int64_t values[]);

#endif
