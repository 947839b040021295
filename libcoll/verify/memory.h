/*
 * All ranks' memory, chunk by chunk: the value of each chunk, its last write, and the reads since
 * then that are not ordered before each other. Two accesses, one of them a write, must be ordered
 * (FastTrack, Flanagan & Freund 2009). Where an in-place call makes INPUT and OUTPUT one memory,
 * both names lead to one cell.
 */
#ifndef VERIFY_MEMORY_H
#define VERIFY_MEMORY_H

#include "verify/clocks.h"
#include "verify/report.h"
#include "verify/values.h"

typedef struct verify_place {
  int32_t rank;
  plan_buffer_t buffer;
  int32_t chunk;
} verify_place_t;

typedef struct verify_cell {
  verify_value_t value;
  verify_epoch_t write;
  int32_t write_step;
  int32_t reads; /* index of a verify_read_t, or -1 */
} verify_cell_t;

/* A read since the last write; a list per cell. */
typedef struct verify_read {
  verify_epoch_t epoch;
  int32_t step, next;
} verify_read_t;

typedef struct verify_memory {
  const plan_t *plan;
  verify_report_t *report;
  size_t (*base)[PLAN_BUFFER_COUNT]; /* [ranks]: first cell of each buffer */
  verify_cell_t *cells;
  verify_read_t *reads;
  size_t read_count, read_capacity;
  int32_t spare_read; /* list of unused entries, or -1 */
} verify_memory_t;

/* Every rank has started: INPUT holds its leaves, OUTPUT and SCRATCH nothing. The start is event 1
 * of the rank's lane 0. */
coll_status_t verify_memory_create(const plan_t *plan, const verify_values_t *values,
                                   verify_report_t *report, verify_memory_t *memory);
void verify_memory_free(verify_memory_t *memory);

/* The cell behind a place. */
size_t verify_memory_cell(const verify_memory_t *memory, verify_place_t place);

/* An access by the lane whose view is given, at `site`. */
coll_status_t verify_memory_read(verify_memory_t *memory, verify_site_t site,
                                 const verify_view_t *view, verify_place_t place,
                                 verify_value_t *value);
coll_status_t verify_memory_write(verify_memory_t *memory, verify_site_t site,
                                  const verify_view_t *view, verify_place_t place,
                                  verify_value_t value);

/* The call of a rank returns: its buffers are the caller's again, its SCRATCH the next call's. That
 * is a write to all of them, by a lane that has seen all of the rank's lanes. */
coll_status_t verify_memory_end(verify_memory_t *memory, int32_t rank, const verify_view_t *view);

/* The value of a place, looked at by nobody. */
verify_value_t verify_memory_peek(const verify_memory_t *memory, verify_place_t place);

#endif
