/* NVLinks of a file of NCCL. Both GPUs of a link list it, so the edges are sorted by their ends,
 * those of one pair are added up in each direction, and the directions compared. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "topo/kinds_build.h"
#include "topo/nccl_reader.h"

coll_status_t topo_nccl_refuse(const char *file, int32_t line, const char *format, ...) {
  char why[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  return base_fail(COLL_ERROR_INVALID, "%s:%d: %s", file, (int)line, why);
}

enum { WARNINGS_MAX = 20 };

void topo_nccl_warn(topo_nccl_reader_t *reader, int32_t line, const char *format, ...) {
  va_list arguments;
  if (reader->warnings == NULL || reader->warned++ >= WARNINGS_MAX) return;
  fprintf(reader->warnings, "warning: %s:%d: ", reader->file, (int)line);
  va_start(arguments, format);
  vfprintf(reader->warnings, format, arguments);
  va_end(arguments);
  fputc('\n', reader->warnings);
}

void topo_nccl_warn_more(topo_nccl_reader_t *reader) {
  if (reader->warned <= WARNINGS_MAX) return;
  fprintf(reader->warnings, "warning: %s: %d more of these\n", reader->file,
          reader->warned - WARNINGS_MAX);
}

/* ---- the graph ------------------------------------------------------------------------------*/

static coll_status_t note_line(int32_t **lines, size_t *capacity, size_t index, int32_t line) {
  COLL_TRY(base_grow((void **)lines, capacity, index + 1, sizeof **lines, "lines of a topology"));
  (*lines)[index] = line;
  return COLL_OK;
}

coll_status_t topo_nccl_add_node(topo_nccl_reader_t *reader, int32_t line, topo_kind_t kind,
                                 int32_t parent, const char *name, int32_t *node) {
  COLL_TRY(
      note_line(&reader->node_lines, &reader->node_line_capacity, reader->graph->node_count, line));
  return topo_graph_add_node(reader->graph, kind, parent, name, node);
}

coll_status_t topo_nccl_add_link(topo_nccl_reader_t *reader, int32_t line, topo_link_t link) {
  COLL_TRY(
      note_line(&reader->link_lines, &reader->link_line_capacity, reader->graph->link_count, line));
  return topo_graph_add_link(reader->graph, &link);
}

/* ---- bus ids --------------------------------------------------------------------------------*/

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

uint64_t topo_nccl_parse_bus_id(topo_nccl_reader_t *reader, int32_t line, const char *text) {
  int digits = 0;
  uint64_t id = 0;
  const char *at = text;
  for (; *at != '\0'; at++) {
    if (*at == ':' || *at == '.') continue;
    int digit = digit_of(*at);
    if (digit < 0 || ++digits > 16) break;
    id = id * 16 + (uint64_t)digit;
  }
  if (*at != '\0' || digits == 0) {
    topo_nccl_warn(reader, line,
                   "'%.24s' is no bus id such as 0000:0c:00.0; it is read as %llx, as "
                   "by NCCL",
                   text, (unsigned long long)id);
  }
  return id;
}

static int compare(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int compare_devices(const void *left, const void *right) {
  const topo_nccl_device_t *a = left, *b = right;
  if (a->host != b->host) return compare(a->host, b->host);
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  return compare(a->line, b->line);
}

static void sort_devices(topo_nccl_reader_t *reader) {
  topo_nccl_device_t *all = reader->devices;
  if (reader->device_count > 0) qsort(all, reader->device_count, sizeof *all, compare_devices);
  for (size_t i = 1; i < reader->device_count; i++) {
    if (all[i].host != all[i - 1].host || all[i].id != all[i - 1].id) continue;
    if (all[i].line == all[i - 1].line) continue;
    topo_nccl_warn(reader, all[i].line,
                   "the <pci> in line %d has the same busid; NVLinks to it are those of the first "
                   "GPU",
                   (int)all[i - 1].line);
  }
}

/* The first GPU of a bus id in a host, or TOPO_NONE. Devices are sorted. */
static int32_t find_gpu(const topo_nccl_reader_t *reader, int32_t host, uint64_t id) {
  size_t low = 0, high = reader->device_count;
  const topo_nccl_device_t key = {.host = host, .id = id, .line = 0};
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare_devices(&reader->devices[middle], &key) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < reader->device_count; low++) {
    const topo_nccl_device_t *found = &reader->devices[low];
    if (found->host != host || found->id != id) break;
    if (found->node != TOPO_NONE && reader->graph->nodes[found->node].kind == TOPO_GPU) {
      return found->node;
    }
  }
  return TOPO_NONE;
}

/* ---- links ----------------------------------------------------------------------------------*/

typedef struct pair {
  int32_t from, to, count, line;
  double gbs, latency_us;
} pair_t;

static int32_t smaller(const pair_t *pair) {
  return pair->from < pair->to ? pair->from : pair->to;
}

static int32_t greater(const pair_t *pair) {
  return pair->from < pair->to ? pair->to : pair->from;
}

static int compare_pairs(const void *left, const void *right) {
  const pair_t *a = left, *b = right;
  if (smaller(a) != smaller(b)) return compare(smaller(a), smaller(b));
  if (greater(a) != greater(b)) return compare(greater(a), greater(b));
  return compare(a->line, b->line);
}

/* The one node of all NVSwitches, in the host or outside if there are several hosts, made when
 * first asked for. */
static coll_status_t find_switch(topo_nccl_reader_t *reader, const topo_nccl_edge_t *edge,
                                 int32_t *nvswitch) {
  topo_graph_t *graph = reader->graph;
  bool shared = topo_graph_count(graph, TOPO_HOST) > 1;
  char name[TOPO_NAME_BYTES];
  if (*nvswitch != TOPO_NONE) return COLL_OK;
  snprintf(name, sizeof name, "%.40s%snvswitch", shared ? "" : graph->nodes[edge->host].name,
           shared ? "" : "/");
  return topo_nccl_add_node(reader, edge->line, TOPO_NVSWITCH, shared ? TOPO_NONE : edge->host,
                            name, nvswitch);
}

static coll_status_t pair_of(topo_nccl_reader_t *reader, const topo_nccl_edge_t *edge,
                             int32_t *nvswitch, pair_t *pair) {
  *pair = (pair_t){edge->from, edge->cpu, edge->count, edge->line, edge->gbs, TOPO_GPU_US};
  if (edge->to_switch) {
    COLL_TRY(find_switch(reader, edge, nvswitch));
    pair->to = *nvswitch;
    pair->latency_us = TOPO_GPU_US / 2;
  } else if (edge->cpu == TOPO_NONE) {
    pair->to = find_gpu(reader, edge->host, edge->target);
  }
  return COLL_OK;
}

/* Whether the link has two ends. Cloud images have files with links of a GPU to itself, and a
 * container's file links to GPUs that the container does not have. NCCL makes nothing of either. */
static bool has_ends(topo_nccl_reader_t *reader, const topo_nccl_edge_t *edge, const pair_t *pair) {
  if (pair->to != TOPO_NONE && pair->to != pair->from) return true;
  topo_nccl_warn(reader, edge->line, "%d links to target=\"%s\" are left out: it is %s",
                 (int)edge->count, edge->target_text,
                 pair->to == TOPO_NONE ? "no GPU of this host; an NVSwitch has tclass=\"0x068000\""
                                       : "the GPU itself");
  return false;
}

/* Adds the link of pairs[0..count), which have the same ends. */
static coll_status_t link_pair(topo_nccl_reader_t *reader, const pair_t pairs[], size_t count) {
  int64_t sums[2] = {0, 0};
  double gbs = pairs[0].gbs;
  int32_t from = pairs[0].from, to = pairs[0].to;
  for (size_t i = 0; i < count; i++) {
    sums[pairs[i].from == from ? 0 : 1] += pairs[i].count;
    if (pairs[i].gbs < gbs) gbs = pairs[i].gbs;
  }
  if (sums[0] > INT32_MAX || sums[1] > INT32_MAX) {
    return topo_nccl_refuse(reader->file, pairs[0].line, "'%s' has more than %d links to '%s'",
                            reader->graph->nodes[from].name, INT32_MAX,
                            reader->graph->nodes[to].name);
  }
  if (sums[1] > 0 && sums[0] != sums[1]) {
    int64_t lesser = sums[0] < sums[1] ? sums[0] : sums[1];
    topo_nccl_warn(reader, pairs[count - 1].line,
                   "'%s' has %d links to '%s', which has %d back; %d are taken",
                   reader->graph->nodes[from].name, (int)sums[0], reader->graph->nodes[to].name,
                   (int)sums[1], (int)lesser);
    sums[0] = lesser;
  }
  return topo_nccl_add_link(reader, pairs[0].line,
                            (topo_link_t){smaller(pairs), greater(pairs), TOPO_CLASS_NVLINK,
                                          (int32_t)sums[0], gbs, pairs[0].latency_us});
}

static coll_status_t link_pairs(topo_nccl_reader_t *reader, pair_t pairs[]) {
  int32_t nvswitch = TOPO_NONE;
  size_t found = 0;
  for (size_t i = 0; i < reader->edge_count; i++) {
    COLL_TRY(pair_of(reader, &reader->edges[i], &nvswitch, &pairs[found]));
    found += has_ends(reader, &reader->edges[i], &pairs[found]);
  }
  if (found > 0) qsort(pairs, found, sizeof *pairs, compare_pairs);
  for (size_t first = 0, end; first < found; first = end) {
    end = first + 1;
    while (end < found && smaller(&pairs[end]) == smaller(&pairs[first]) &&
           greater(&pairs[end]) == greater(&pairs[first])) {
      end++;
    }
    COLL_TRY(link_pair(reader, pairs + first, end - first));
  }
  return COLL_OK;
}

coll_status_t topo_nccl_link_gpus(topo_nccl_reader_t *reader) {
  pair_t *pairs = NULL;
  sort_devices(reader);
  COLL_TRY(base_alloc(reader->edge_count + 1, sizeof *pairs, "NVLinks", (void **)&pairs));
  coll_status_t status = link_pairs(reader, pairs);
  free(pairs);
  return status;
}
