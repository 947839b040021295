/* One numbering of cells for all ranks, in pages. Reads are list entries from a pool. */
#include "verify/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Limits for a hostile plan file. */
#define CELLS_MAX ((size_t)INT32_MAX) /* a table of 64 MB */
#define PAGES_MAX ((size_t)1 << 19)   /* 3 GB of cells */

#define PAGE_CELLS ((size_t)256)
#define NO_READ 0
#define SEARCH_LENGTH 4 /* shorter lists of reads are always searched for covered ones */

/* ---- layout ---- */

/* Numbers the cells of the buffers, rank by rank. */
static coll_status_t lay_out(verify_memory_t *memory, size_t *cells) {
  const plan_t *plan = memory->plan;
  memory->scratch_vectors = plan->scratch_chunks / plan->parts;
  if (plan->scratch_chunks % plan->parts != 0) memory->scratch_vectors++;
  size_t next = 0, scratch = (size_t)memory->scratch_vectors * (size_t)plan->parts;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
      bool is_scratch = buffer == PLAN_SCRATCH;
      memory->base[rank][buffer] = next;
      next += is_scratch ? scratch : (size_t)plan_chunks(plan, rank, (plan_buffer_t)buffer);
    }
  }
  if (next > CELLS_MAX) {
    return base_fail(COLL_ERROR_MEMORY,
                     "the plan's ranks have %zu chunks; at most %zu are verified", next, CELLS_MAX);
  }
  *cells = next;
  return COLL_OK;
}

verify_place_t verify_memory_place(const verify_memory_t *memory, verify_place_t place) {
  if (place.buffer != PLAN_INPUT || !memory->plan->programs[place.rank].in_place) return place;
  int32_t output = plan_alias(memory->plan, place.rank, place.chunk);
  if (output < 0) return place;
  return (verify_place_t){.rank = place.rank, .buffer = PLAN_OUTPUT, .chunk = output};
}

/* The number of the cell behind a place. */
static size_t number_of(const verify_memory_t *memory, verify_place_t place) {
  verify_place_t at = verify_memory_place(memory, place);
  size_t first = memory->base[at.rank][at.buffer];
  int32_t parts = memory->plan->parts, vectors = memory->scratch_vectors;
  if (at.buffer != PLAN_SCRATCH || vectors == 1 || parts == 1) return first + (size_t)at.chunk;
  return first + (size_t)(at.chunk % parts) * (size_t)vectors + (size_t)(at.chunk / parts);
}

static coll_status_t make_page(verify_memory_t *memory, verify_cell_t **page) {
  if (memory->pages_made == PAGES_MAX) {
    return base_fail(COLL_ERROR_MEMORY, "the plan uses more than the %zu chunks that are verified",
                     PAGES_MAX * PAGE_CELLS);
  }
  memory->pages_made++;
  return base_alloc(PAGE_CELLS, sizeof **page, "cells", (void **)page);
}

/* The cell behind a place. */
static coll_status_t find_cell(verify_memory_t *memory, verify_place_t place,
                               verify_cell_t **cell) {
  size_t number = number_of(memory, place);
  verify_cell_t **page = &memory->pages[number / PAGE_CELLS];
  if (*page == NULL) COLL_TRY(make_page(memory, page));
  *cell = &(*page)[number % PAGE_CELLS];
  return COLL_OK;
}

static coll_status_t start(verify_memory_t *memory, const verify_values_t *values, int32_t rank) {
  const plan_t *plan = memory->plan;
  verify_epoch_t started = {.lane = (uint32_t)(rank * plan->lanes), .count = 1};
  memory->calls[rank] = (verify_call_t){.event = started, .step = VERIFY_AT_START};
  int32_t inputs = plan_chunks(plan, rank, PLAN_INPUT);
  for (int32_t chunk = 0; chunk < inputs; chunk++) {
    verify_place_t place = {.rank = rank, .buffer = PLAN_INPUT, .chunk = chunk};
    verify_cell_t *cell = NULL;
    COLL_TRY(find_cell(memory, place, &cell));
    cell->value = verify_value_leaf(values, rank, chunk);
  }
  return COLL_OK;
}

coll_status_t verify_memory_create(const plan_t *plan, const verify_values_t *values,
                                   verify_report_t *report, verify_memory_t *memory) {
  *memory = (verify_memory_t){.plan = plan, .report = report, .read_count = 1};
  size_t ranks = (size_t)plan->shape.size, cells = 0;
  COLL_TRY(base_alloc(ranks, sizeof *memory->base, "cells", (void **)&memory->base));
  COLL_TRY(base_alloc(ranks, sizeof *memory->calls, "calls", (void **)&memory->calls));
  COLL_TRY(lay_out(memory, &cells));
  size_t pages = (cells + PAGE_CELLS - 1) / PAGE_CELLS;
  COLL_TRY(base_alloc(pages, sizeof *memory->pages, "cells", (void **)&memory->pages));
  memory->page_count = pages;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) COLL_TRY(start(memory, values, rank));
  return COLL_OK;
}

void verify_memory_free(verify_memory_t *memory) {
  for (size_t i = 0; i < memory->page_count; i++) free(memory->pages[i]);
  free(memory->pages);
  free(memory->base);
  free(memory->calls);
  free(memory->reads);
}

/* ---- accesses ---- */

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
    coll_status_t status =
        verify_reject(memory->plan, memory->report, VERIFY_RACE, site,
                      "%s may be returned to the caller before %s %s it", what, where, did);
    verify_set_cause(memory->report, other);
    return status;
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
  verify_call_t last = {.event = cell->write, .step = cell->write_number - 1};
  if (last.event.count == 0) last = memory->calls[place.rank];
  if (verify_view_covers(view, last.event)) return COLL_OK;
  return race(memory, site, what, place, site_of(memory, last.event, last.step), "writes");
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
 * ordered after them too. Returns the number of reads that are left. */
static int32_t forget_covered_reads(verify_memory_t *memory, const verify_view_t *view,
                                    verify_cell_t *cell) {
  int32_t left = 0;
  int32_t *link = &cell->reads;
  while (*link != NO_READ) {
    int32_t index = *link;
    verify_read_t *read = &memory->reads[index];
    if (verify_view_covers(view, read->epoch)) {
      *link = read->next;
      free_read(memory, index);
    } else {
      link = &read->next;
      left++;
    }
  }
  return left;
}

/* Adds a read to the cell's list. The list is searched for covered reads only when it has doubled
 * since the last search, as many ranks may read a chunk at the same time. */
static coll_status_t add_read(verify_memory_t *memory, verify_site_t site,
                              const verify_view_t *view, verify_cell_t *cell) {
  int32_t length = 0, kept = 0, index = NO_READ;
  if (cell->reads != NO_READ) {
    const verify_read_t *first = &memory->reads[cell->reads];
    length = first->length;
    kept = first->kept;
  }
  if (length < SEARCH_LENGTH || length >= 2 * kept) {
    length = kept = forget_covered_reads(memory, view, cell);
  }
  COLL_TRY(new_read(memory, &index));
  memory->reads[index] = (verify_read_t){.epoch = view->now,
                                         .step = site.step,
                                         .next = cell->reads,
                                         .length = length + 1,
                                         .kept = kept};
  cell->reads = index;
  return COLL_OK;
}

coll_status_t verify_memory_read(verify_memory_t *memory, verify_site_t site,
                                 const verify_view_t *view, verify_place_t place,
                                 verify_value_t *value) {
  verify_cell_t *cell = NULL;
  COLL_TRY(find_cell(memory, place, &cell));
  COLL_TRY(check_against_write(memory, site, view, "reads", place, cell));
  if (cell->value == VERIFY_UNDEFINED) {
    return verify_reject(memory->plan, memory->report, VERIFY_UNWRITTEN, site,
                         "reads %s[%d] of rank %d, which was never written",
                         plan_buffer_name(place.buffer), place.chunk, place.rank);
  }
  COLL_TRY(add_read(memory, site, view, cell));
  *value = cell->value;
  return COLL_OK;
}

/* Checks a write against all earlier accesses and forgets them. */
static coll_status_t check_write(verify_memory_t *memory, verify_site_t site,
                                 const verify_view_t *view, verify_place_t place,
                                 verify_cell_t *cell) {
  COLL_TRY(check_against_write(memory, site, view, "writes", place, cell));
  while (cell->reads != NO_READ) {
    verify_read_t read = memory->reads[cell->reads];
    if (!verify_view_covers(view, read.epoch)) {
      return race(memory, site, "writes", place, site_of(memory, read.epoch, read.step), "reads");
    }
    free_read(memory, cell->reads);
    cell->reads = read.next;
  }
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
  verify_cell_t *cell = NULL;
  COLL_TRY(find_cell(memory, place, &cell));
  COLL_TRY(check_write(memory, site, view, place, cell));
  cell->value = value;
  cell->write = view->now;
  cell->write_number = site.step + 1;
  return COLL_OK;
}

/* Ends the accesses to one buffer of a rank. Pages that do not exist have none. */
static coll_status_t end_buffer(verify_memory_t *memory, int32_t rank, plan_buffer_t buffer,
                                const verify_view_t *view) {
  verify_site_t site = {.rank = rank, .lane = 0, .step = VERIFY_AT_END};
  int32_t chunks = plan_chunks(memory->plan, rank, buffer), parts = memory->plan->parts;
  int32_t vectors = buffer == PLAN_SCRATCH ? memory->scratch_vectors : 1;
  int64_t stored = buffer == PLAN_SCRATCH ? (int64_t)vectors * parts : chunks;
  for (int64_t i = 0; i < stored; i++) {
    int64_t chunk = vectors > 1 ? i % vectors * parts + i / vectors : i;
    verify_place_t place = {.rank = rank, .buffer = buffer, .chunk = (int32_t)chunk};
    size_t number = number_of(memory, place);
    verify_cell_t *page = memory->pages[number / PAGE_CELLS];
    if (page == NULL) {
      i += (int64_t)(PAGE_CELLS - 1 - number % PAGE_CELLS);
      continue;
    }
    verify_cell_t *cell = &page[number % PAGE_CELLS];
    COLL_TRY(check_write(memory, site, view, place, cell));
    cell->write.count = 0; /* the event of the call */
  }
  return COLL_OK;
}

coll_status_t verify_memory_end(verify_memory_t *memory, int32_t rank, const verify_view_t *view) {
  for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
    COLL_TRY(end_buffer(memory, rank, (plan_buffer_t)buffer, view));
  }
  memory->calls[rank] = (verify_call_t){.event = view->now, .step = VERIFY_AT_END};
  return COLL_OK;
}

bool verify_memory_writer(const verify_memory_t *memory, verify_place_t place,
                          verify_site_t *site) {
  size_t number = number_of(memory, place);
  const verify_cell_t *page = memory->pages[number / PAGE_CELLS];
  const verify_cell_t *cell = page != NULL ? &page[number % PAGE_CELLS] : NULL;
  if (cell == NULL || cell->write_number == 0) return false;
  *site = site_of(memory, cell->write, cell->write_number - 1);
  return true;
}

verify_value_t verify_memory_peek(const verify_memory_t *memory, verify_place_t place) {
  size_t number = number_of(memory, place);
  const verify_cell_t *page = memory->pages[number / PAGE_CELLS];
  return page != NULL ? page[number % PAGE_CELLS].value : VERIFY_UNDEFINED;
}
