/* Spans are written as they come, a line each: a rank's are never in memory as text. */
#include "libtrain/parallel/trace_file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "libtrain/parallel/traffic.h"

_Static_assert(TRAIN_TRACE_TRACKS == 1 + TRAIN_TRAFFIC_AXES, "a track for each axis");

/* What a rank sends before its spans. */
typedef struct header {
  uint64_t kept, recorded;
  uint64_t clock_ns; /* wall clock at 0 of base_clock_now_ns */
  char title[TRAIN_TRACE_TITLE_BYTES];
} header_t;

typedef struct output {
  FILE *file; /* NULL: it cannot be written */
  coll_status_t status;
  uint64_t zero_ns; /* the wall clock at the file's time 0 */
  bool continues;   /* a line has been written */
} output_t;

static header_t header_of(const train_trace_t *trace, const char *title) {
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  uint64_t wall_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
  header_t header = {.recorded = trace->recorded,
                     .kept = trace->recorded < trace->capacity ? trace->recorded : trace->capacity,
                     .clock_ns = wall_ns - base_clock_now_ns()};
  snprintf(header.title, sizeof header.title, "%s", title);
  return header;
}

/* ---- the file ---- */

static void begin_line(output_t *output) {
  fputs(output->continues ? ",\n" : "\n", output->file);
  output->continues = true;
}

static void write_name(output_t *output, const char *kind, int rank, int track, const char *name) {
  begin_line(output);
  fprintf(output->file,
          "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", kind,
          rank, track, name);
}

/* In the order of ranks and tracks, not of their names. */
static void write_order(output_t *output, const char *kind, int rank, int track, int at) {
  begin_line(output);
  fprintf(output->file,
          "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}", kind,
          rank, track, at);
}

static const char *track_name(int track) {
  return track == TRAIN_TRACE_COMPUTE ? "compute" : train_traffic_names[track - 1];
}

/* "forward 3", "forward 3 of chunk 1", "forward 3, slice 2". */
static void write_span(output_t *output, const header_t *header, int rank,
                       const train_trace_span_t *span) {
  uint64_t start_ns = span->start_ns + header->clock_ns - output->zero_ns;
  begin_line(output);
  fprintf(output->file, "{\"ph\":\"X\",\"name\":\"%s", train_trace_names[span->kind]);
  if (span->micro_batch >= 0) fprintf(output->file, " %d", (int)span->micro_batch);
  if (span->chunk >= 0) fprintf(output->file, " of chunk %d", (int)span->chunk);
  if (span->slice >= 0) fprintf(output->file, ", slice %d", (int)span->slice);
  fprintf(output->file,
          "\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{",
          track_name(span->track), rank, (int)span->track, (double)(int64_t)start_ns * 1e-3,
          (double)(span->end_ns - span->start_ns) * 1e-3);
  if (span->bytes > 0) fprintf(output->file, "\"bytes\":%" PRIu64, span->bytes);
  fputs("}}", output->file);
}

/* spans[kept], the oldest at `first`. */
static void write_rank(output_t *output, const header_t *header, int rank,
                       const train_trace_span_t *spans, uint64_t first) {
  bool used[TRAIN_TRACE_TRACKS] = {0};
  if (output->file == NULL) return;
  write_name(output, "process_name", rank, 0, header->title);
  write_order(output, "process_sort_index", rank, 0, rank);
  for (uint64_t i = 0; i < header->kept; i++) used[spans[i].track] = true;
  for (int track = 0; track < TRAIN_TRACE_TRACKS; track++) {
    if (!used[track]) continue;
    write_name(output, "thread_name", rank, track, track_name(track));
    write_order(output, "thread_sort_index", rank, track, track);
  }
  for (uint64_t i = 0; i < header->kept; i++) {
    write_span(output, header, rank, &spans[(first + i) % header->kept]);
  }
}

static void open_output(const char *path, output_t *output) {
  output->file = fopen(path, "we");
  if (output->file == NULL) {
    output->status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the trace %s", path);
    return;
  }
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", output->file);
}

static void close_output(const char *path, output_t *output) {
  if (output->file == NULL) return;
  fputs("\n]}\n", output->file);
  bool failed = ferror(output->file) != 0;
  failed = fclose(output->file) != 0 || failed;
  if (!failed || output->status != COLL_OK) return;
  output->status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the trace %s", path);
}

/* ---- the ranks ---- */

static coll_status_t send_spans(const train_trace_t *trace, const train_group_t *group,
                                const header_t *header) {
  COLL_TRY(train_group_send(group, header, sizeof *header, 0));
  uint64_t first = header->recorded % trace->capacity;
  if (header->kept < trace->capacity) first = 0;
  size_t late = (size_t)(header->kept - first);
  if (late > 0)
    COLL_TRY(train_group_send(group, trace->spans + first, late * sizeof *trace->spans, 0));
  if (first == 0) return COLL_OK;
  return train_group_send(group, trace->spans, (size_t)first * sizeof *trace->spans, 0);
}

/* Receives them into spans, in the order of time. */
static coll_status_t receive_spans(const train_trace_t *own, const train_group_t *group, int rank,
                                   header_t *header, train_trace_span_t *spans) {
  COLL_TRY(train_group_receive(group, header, sizeof *header, rank));
  uint64_t first = header->kept < own->capacity ? 0 : header->recorded % own->capacity;
  size_t late = (size_t)(header->kept - first);
  if (late > 0) COLL_TRY(train_group_receive(group, spans, late * sizeof *spans, rank));
  if (first == 0) return COLL_OK;
  return train_group_receive(group, spans + late, (size_t)first * sizeof *spans, rank);
}

static void count(const header_t *header, train_trace_counts_t *counts) {
  counts->kept += header->kept;
  counts->recorded += header->recorded;
}

/* Receives all, also if the file cannot be written. */
static coll_status_t write_all(const train_trace_t *trace, const train_group_t *group,
                               const header_t *own, train_trace_span_t *spans, output_t *output,
                               train_trace_counts_t *counts) {
  uint64_t first = own->kept < trace->capacity ? 0 : own->recorded % trace->capacity;
  write_rank(output, own, 0, trace->spans, first);
  count(own, counts);
  for (int rank = 1; rank < group->size; rank++) {
    header_t header;
    COLL_TRY(receive_spans(trace, group, rank, &header, spans));
    write_rank(output, &header, rank, spans, 0);
    count(&header, counts);
  }
  return COLL_OK;
}

coll_status_t train_trace_write(const train_trace_t *trace, const train_group_t *group,
                                const char *title, const char *path, train_trace_counts_t *counts) {
  const header_t own = header_of(trace, title);
  void *spans = NULL;
  output_t output = {.status = COLL_OK};
  *counts = (train_trace_counts_t){0};
  bool main = group->rank == 0;
  if (main) {
    output.status = base_alloc(trace->capacity, sizeof *trace->spans, "the traces", &spans);
  }
  COLL_TRY(train_group_agree(group, output.status));
  if (main) open_output(path, &output);
  output.zero_ns = own.clock_ns + trace->created_ns;
  coll_status_t status =
      main ? write_all(trace, group, &own, spans, &output, counts) : send_spans(trace, group, &own);
  if (main) close_output(path, &output);
  free(spans);
  COLL_TRY(status);
  return train_group_agree(group, output.status);
}
