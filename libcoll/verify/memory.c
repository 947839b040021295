/* One array of cells for all ranks. Reads are list entries from a pool. */
#include "verify/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

#define CELLS_MAX ((size_t)1 << 27) /* memory limit for a hostile plan file: 3 GB */
#define NO_READ (-1)

/* Assigns cells to the buffers, rank by rank. */
static coll_status_t lay_out(verify_memory_t *memory, size_t *cells) {
  const plan_t *plan = memory->plan;
  size_t next = 0;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
      memory->base[rank][buffer] = next;
      next += (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer);
    }
  }
  if (next > CELLS_MAX) {
    return base_fail(COLL_ERROR_MEMORY,
                     "the plan's ranks have %zu chunks; at most %zu are verified", next, CELLS_MAX);
  }
  *cells = next;
  return COLL_OK;
}

static void start(verify_memory_t *memory, const verify_values_t *values, int32_t rank) {
  const plan_t *plan = memory->plan;
  verify_epoch_t started = {.lane = (uint32_t)(rank * plan->lanes), .count = 1};
  for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
    int32_t chunks = plan_chunks(plan, rank, (plan_buffer_t)buffer);
    for (int32_t chunk = 0; chunk < chunks; chunk++) {
      memory->cells[memory->base[rank][buffer] + (size_t)chunk] =
          (verify_cell_t){.write = started, .write_step = VERIFY_AT_START, .reads = NO_READ};
    }
  }
  int32_t inputs = plan_chunks(plan, rank, PLAN_INPUT);
  for (int32_t chunk = 0; chunk < inputs; chunk++) {
    verify_place_t place = {.rank = rank, .buffer = PLAN_INPUT, .chunk = chunk};
    memory->cells[verify_memory_cell(memory, place)].value = verify_value_leaf(values, rank, chunk);
  }
}

coll_status_t verify_memory_create(const plan_t *plan, const verify_values_t *values,
                                   verify_report_t *report, verify_memory_t *memory) {
  *memory = (verify_memory_t){.plan = plan, .report = report, .free_reads = NO_READ};
  COLL_TRY(
      base_alloc((size_t)plan->shape.size, sizeof *memory->base, "cells", (void **)&memory->base));
  size_t cells = 0;
  COLL_TRY(lay_out(memory, &cells));
  COLL_TRY(base_alloc(cells, sizeof *memory->cells, "cells", (void **)&memory->cells));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) start(memory, values, rank);
  return COLL_OK;
}

void verify_memory_free(verify_memory_t *memory) {
  free(memory->base);
  free(memory->cells);
  free(memory->reads);
}

size_t verify_memory_cell(const verify_memory_t *memory, verify_place_t place) {
  const plan_t *plan = memory->plan;
  if (place.buffer == PLAN_INPUT && plan->programs[place.rank].in_place) {
    int32_t output = plan_alias(plan, place.rank, place.chunk);
    if (output >= 0) return memory->base[place.rank][PLAN_OUTPUT] + (size_t)output;
  }
  return memory->base[place.rank][place.buffer] + (size_t)place.chunk;
}

static verify_site_t site_of(const verify_memory_t *memory, verify_epoch_t epoch, int32_t step) {
  int32_t lanes = memory->plan->lanes;
  return (verify_site_t){
      .rank = (int32_t)epoch.lane / lanes, .lane = (int32_t)epoch.lane % lanes, .step = step};
}

/* Rejects two unordered accesses: this one (`does`, e.g. "reads", at `site`) and an earlier one of
 * the run (`did`, by `other`). */
static coll_status_t race(const verify_memory_t *memory, verify_site_t site, const char *does,
                          verify_place_t place, verify_site_t other, const char *did) {
  char where[80], what[48];
  snprintf(what, sizeof what, "%s[%d] of rank %d", plan_buffer_name(place.buffer), place.chunk,
           place.rank);
  verify_site_describe(memory->plan, other, where, sizeof where);
  if (site.step == VERIFY_AT_END) {
    return verify_reject(memory->plan, memory->report, VERIFY_RACE, site,
                         "%s may be returned to the caller before %s %s it", what, where, did);
  }
  if (other.step < 0) {
    return verify_reject(memory->plan, memory->report, VERIFY_RACE, site,
                         "%s %s, and nothing orders that %s %s", does, what,
                         other.step == VERIFY_AT_START ? "after" : "before", where);
  }
  return verify_reject(memory->plan, memory->report, VERIFY_RACE, site,
                       "%s %s, which %s %s, and nothing orders the two", does, what, where, did);
}

static coll_status_t check_against_write(const verify_memory_t *memory, verify_site_t site,
                                         const verify_view_t *view, const char *what,
                                         verify_place_t place, const verify_cell_t *cell) {
  if (verify_view_covers(view, cell->write)) return COLL_OK;
  return race(memory, site, what, place, site_of(memory, cell->write, cell->write_step), "writes");
}

static void free_read(verify_memory_t *memory, int32_t index) {
  memory->reads[index].next = memory->free_reads;
  memory->free_reads = index;
}

static coll_status_t new_read(verify_memory_t *memory, int32_t *index) {
  if (memory->free_reads != NO_READ) {
    *index = memory->free_reads;
    memory->free_reads = memory->reads[*index].next;
    return COLL_OK;
  }
  COLL_TRY(base_grow((void **)&memory->reads, &memory->read_capacity, memory->read_count + 1,
                     sizeof *memory->reads, "reads"));
  *index = (int32_t)memory->read_count++;
  return COLL_OK;
}

/* Removes the reads that are ordered before this one: an access that is ordered after this one is
 * ordered after them too. */
static void forget_covered_reads(verify_memory_t *memory, const verify_view_t *view,
                                 verify_cell_t *cell) {
  int32_t *link = &cell->reads;
  while (*link != NO_READ) {
    int32_t index = *link;
    verify_read_t *read = &memory->reads[index];
    if (verify_view_covers(view, read->epoch)) {
      *link = read->next;
      free_read(memory, index);
    } else {
      link = &read->next;
    }
  }
}

coll_status_t verify_memory_read(verify_memory_t *memory, verify_site_t site,
                                 const verify_view_t *view, verify_place_t place,
                                 verify_value_t *value) {
  verify_cell_t *cell = &memory->cells[verify_memory_cell(memory, place)];
  COLL_TRY(check_against_write(memory, site, view, "reads", place, cell));
  if (cell->value == VERIFY_UNDEFINED) {
    return verify_reject(memory->plan, memory->report, VERIFY_UNWRITTEN, site,
                         "reads %s[%d] of rank %d, which was never written",
                         plan_buffer_name(place.buffer), place.chunk, place.rank);
  }
  forget_covered_reads(memory, view, cell);
  int32_t index = NO_READ;
  COLL_TRY(new_read(memory, &index));
  memory->reads[index] =
      (verify_read_t){.epoch = view->now, .step = site.step, .next = cell->reads};
  cell->reads = index;
  *value = cell->value;
  return COLL_OK;
}

static coll_status_t overwrite(verify_memory_t *memory, verify_site_t site,
                               const verify_view_t *view, verify_place_t place,
                               verify_value_t value) {
  verify_cell_t *cell = &memory->cells[verify_memory_cell(memory, place)];
  COLL_TRY(check_against_write(memory, site, view, "writes", place, cell));
  while (cell->reads != NO_READ) {
    verify_read_t read = memory->reads[cell->reads];
    if (!verify_view_covers(view, read.epoch)) {
      return race(memory, site, "writes", place, site_of(memory, read.epoch, read.step), "reads");
    }
    free_read(memory, cell->reads);
    cell->reads = read.next;
  }
  cell->value = value;
  cell->write = view->now;
  cell->write_step = site.step;
  return COLL_OK;
}

coll_status_t verify_memory_write(verify_memory_t *memory, verify_site_t site,
                                  const verify_view_t *view, verify_place_t place,
                                  verify_value_t value) {
  const plan_t *plan = memory->plan;
  if (place.buffer == PLAN_INPUT) {
    bool in_place = plan->programs[place.rank].in_place;
    if (!in_place || plan_alias(plan, place.rank, place.chunk) < 0) {
      return verify_reject(plan, memory->report, VERIFY_CONST_INPUT, site,
                           "writes input[%d] of rank %d, which is the caller's and not output",
                           place.chunk, place.rank);
    }
  }
  return overwrite(memory, site, view, place, value);
}

coll_status_t verify_memory_end(verify_memory_t *memory, int32_t rank, const verify_view_t *view) {
  verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
  for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
    int32_t chunks = plan_chunks(memory->plan, rank, (plan_buffer_t)buffer);
    for (int32_t chunk = 0; chunk < chunks; chunk++) {
      verify_place_t place = {.rank = rank, .buffer = (plan_buffer_t)buffer, .chunk = chunk};
      COLL_TRY(overwrite(memory, site, view, place, verify_memory_peek(memory, place)));
    }
  }
  return COLL_OK;
}

verify_value_t verify_memory_peek(const verify_memory_t *memory, verify_place_t place) {
  return memory->cells[verify_memory_cell(memory, place)].value;
}
