/* The JSON file of a run: the machine it was taken on, its settings, and every row. */
#ifndef BENCH_JOURNAL_H
#define BENCH_JOURNAL_H

#include <coll.h>

#include <stdint.h>

#include "bench/outcome.h"
#include "bench/rows.h"
#include "bench/settings.h"

typedef struct bench_journal bench_journal_t;

/* Opens the file at once, so that a wrong name does not cost a long run. The caller owns *journal.
 */
coll_status_t bench_journal_begin(const char *path, const bench_settings_t *settings, int ranks,
                                  bench_journal_t **journal);
void bench_journal_row(bench_journal_t *journal, const bench_row_t *row,
                       const bench_outcome_t *out_of_place, const bench_outcome_t *in_place,
                       int ranks);

/* Writes the file and frees the journal, also on failure. COLL_ERROR_SYSTEM: it is not complete. */
coll_status_t bench_journal_end(bench_journal_t *journal, uint64_t wrong, double mean_busbw);

/* Frees without writing; the file is left empty. */
void bench_journal_abandon(bench_journal_t *journal);

#endif
