/*
 * Costs that were measured on this machine, cached on disk for later processes: named whole numbers
 * in one small text file in $XDG_CACHE_HOME/libcoll or ~/.cache/libcoll. The file's name and its
 * first lines identify what the values hold for: processor, caches, number of cores, version and
 * kind of build of the library, and a `variant` that the caller chooses (the instruction set, for
 * example). For anything else there is no entry. A file that is missing, damaged or cannot be
 * written is no error: the caller measures again.
 */
#ifndef TOPO_COST_CACHE_H
#define TOPO_COST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPO_COST_CACHE_MAX 128 /* entries of a file */

/* Loads values[i], from 0 to INT64_MAX, for each names[i]. False, and no value is set, if a name is
 * missing or the file is damaged. Names contain no spaces. */
bool topo_cost_cache_load(const char *variant, const char *const names[], size_t count,
                          int64_t values[]);

/* Adds the values to the file; they replace older ones of the same names. If there is no room for a
 * new name, the name that was added first is dropped. */
void topo_cost_cache_save(const char *variant, const char *const names[], size_t count,
                          const int64_t values[]);

#endif
