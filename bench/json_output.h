/* The JSON file of a run (--json): the machine, the settings and the result of every row. */
#ifndef BENCH_JSON_OUTPUT_H
#define BENCH_JSON_OUTPUT_H

#include <coll.h>

#include <stdint.h>

#include "bench/result.h"
#include "bench/rows.h"
#include "bench/settings.h"

typedef struct bench_json_output bench_json_output_t;

/* Opens the file, so that a wrong name fails before the run and not after it. The caller owns
 * *output. */
coll_status_t bench_json_output_begin(const char *path, const bench_settings_t *settings, int ranks,
                                      bench_json_output_t **output);
void bench_json_output_row(bench_json_output_t *output, const bench_row_t *row,
                           const bench_result_t *out_of_place, const bench_result_t *in_place,
                           int ranks);

/* Writes the file and frees the output, also on failure. COLL_ERROR_SYSTEM: the file is incomplete.
 */
coll_status_t bench_json_output_end(bench_json_output_t *output, uint64_t wrong, double mean_busbw);

/* Frees without writing; the file is left empty. */
void bench_json_output_abandon(bench_json_output_t *output);

#endif
