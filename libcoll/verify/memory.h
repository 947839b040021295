/*
 * The memory of all ranks, chunk by chunk: the value of each chunk, its last write, and the reads
 * since then that are not ordered before one another. Two accesses, one of them a write, must be
 * ordered (FastTrack, Flanagan & Freund 2009). Where INPUT and OUTPUT of an in-place call are the
 * same memory, both names refer to one cell. Cells are made at the first access: of a SCRATCH of
 * ranks^2 chunks, a rank may use only its own share of each of `ranks` vectors.
 */
#ifndef VERIFY_MEMORY_H
#define VERIFY_MEMORY_H

#include "verify/clocks.h"
#include "verify/report.h"
#include "verify/values.h"

/* One chunk of memory. */
typedef struct verify_place {
  int32_t rank;
  plan_buffer_t buffer;
  int32_t chunk;
} verify_place_t;

/* All 0: a cell that was not accessed since the start (or the end) of its rank's call. */
typedef struct verify_cell {
  verify_value_t value;
  verify_epoch_t write; /* count 0: see verify_memory_t.calls */
  int32_t write_number; /* the last step that wrote it, and 1; 0: none */
  int32_t reads;        /* index of a verify_read_t, or 0 */
} verify_cell_t;

/* A read since the last write; a list per cell. */
typedef struct verify_read {
  verify_epoch_t epoch;
  int32_t step, next;
  int32_t length, kept; /* of the list from here: reads, and those that the last search for covered
                           reads has kept */
} verify_read_t;

/* The last event that counts as a write to all memory of a rank. */
typedef struct verify_call {
  verify_epoch_t event;
  int32_t step; /* VERIFY_AT_START or VERIFY_AT_END */
} verify_call_t;

typedef struct verify_memory {
  const plan_t *plan;
  verify_report_t *report;
  size_t (*base)[PLAN_BUFFER_COUNT]; /* [ranks]: first cell of each buffer */
  verify_call_t *calls;              /* [ranks] */
  verify_cell_t **pages;             /* [page_count]: of 256 cells; NULL: all are 0 */
  size_t page_count, pages_made;
  int32_t scratch_vectors; /* SCRATCH is stored transposed: all chunks of a part side by side */
  verify_read_t *reads;    /* [0] is not used */
  size_t read_count, read_capacity;
  int32_t free_reads; /* first of the list of free entries, or 0 */
} verify_memory_t;

/* Creates the state in which every rank has entered the call: INPUT holds its leaves; OUTPUT and
 * SCRATCH are undefined. The entry of a rank is event 1 of its lane 0. */
coll_status_t verify_memory_create(const plan_t *plan, const verify_values_t *values,
                                   verify_report_t *report, verify_memory_t *memory);
void verify_memory_free(verify_memory_t *memory);

/* The name of a place that is unique: for memory that is both INPUT and OUTPUT, that of OUTPUT. */
verify_place_t verify_memory_place(const verify_memory_t *memory, verify_place_t place);

/* Records an access by the lane with this view, at `site`. */
coll_status_t verify_memory_read(verify_memory_t *memory, verify_site_t site,
                                 const verify_view_t *view, verify_place_t place,
                                 verify_value_t *value);
coll_status_t verify_memory_write(verify_memory_t *memory, verify_site_t site,
                                  const verify_view_t *view, verify_place_t place,
                                  verify_value_t value);

/* Records that a rank's call returns: its buffers belong to the caller again, its SCRATCH to the
 * next call. That is modelled as a write to all of them, by a lane that has observed all lanes of
 * the rank. */
coll_status_t verify_memory_end(verify_memory_t *memory, int32_t rank, const verify_view_t *view);

/* The last step that wrote a chunk. False: none did. */
bool verify_memory_writer(const verify_memory_t *memory, verify_place_t place, verify_site_t *site);

/* The value of a chunk, without recording a read. */
verify_value_t verify_memory_peek(const verify_memory_t *memory, verify_place_t place);

#endif
