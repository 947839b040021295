/*
 * The traces of all ranks as one file in Chrome's trace event format, which Perfetto
 * (ui.perfetto.dev) and chrome://tracing show: a process for each rank, in it a thread for what
 * computes and for each axis that the rank has used. Times are those of the wall clock, so that
 * hosts are as much apart as their clocks.
 */
#ifndef LIBTRAIN_PARALLEL_TRACE_FILE_H
#define LIBTRAIN_PARALLEL_TRACE_FILE_H

#include "libtrain/parallel/group.h"
#include "libtrain/parallel/trace.h"

/* Of all ranks together. */
typedef struct train_trace_counts {
  uint64_t kept, recorded; /* spans in the file; all that were recorded */
} train_trace_counts_t;

#define TRAIN_TRACE_TITLE_BYTES 64

/* Rank 0 receives the other ranks' spans, one rank after another, and writes the file. `title` is
 * the name of this rank in it, of less than TRAIN_TRACE_TITLE_BYTES of ASCII without quotes and
 * backslashes. *counts is set on rank 0. Collective. On failure all ranks return an error, as from
 * train_group_agree. */
coll_status_t train_trace_write(const train_trace_t *trace, const train_group_t *group,
                                const char *title, const char *path, train_trace_counts_t *counts);

#endif
