/*
 * Counts what exists, and prints it at exit.
 */
#include <stdio.h>
#include <unistd.h>

#include "gpu/standin/state.h"

typedef struct counts {
  int allocations, reservations, mappings, handles, streams, events, contexts, graphs;
} counts_t;

static counts_t count_all(void) {
  counts_t counts = {0};
  for (region_t *r = standin.regions; r != NULL; r = r->next) {
    counts.reservations += r->kind == REGION_RESERVED;
    counts.mappings += r->kind == REGION_MAPPING || r->kind == REGION_IPC;
    counts.allocations +=
        r->kind != REGION_RESERVED && r->kind != REGION_MAPPING && r->kind != REGION_IPC;
  }
  for (physical_t *p = standin.physicals; p != NULL; p = p->next) counts.handles += p->handles;
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) {
    counts.streams += !s->destroyed && s != s->context->legacy && !s->hidden;
  }
  for (cuda_event_t e = standin.events; e != NULL; e = e->next) counts.events += !e->destroyed;
  counts.graphs = standin_graphs();
  for (int i = 0; i < standin.device_count; i++) {
    counts.contexts += standin.contexts[i].retains > 0;
  }
  return counts;
}

int standin_leaks(char *text, size_t bytes) {
  standin_lock();
  counts_t counts = count_all();
  const struct {
    int count;
    const char *name;
  } lines[] = {{counts.allocations, "allocation"},
               {counts.reservations, "reservation"},
               {counts.mappings, "mapping"},
               {counts.handles, "memory handle"},
               {counts.streams, "stream"},
               {counts.events, "event"},
               {standin.modules, "module"},
               {counts.contexts, "context"},
               {counts.graphs, "graph"}};
  standin_unlock();
  size_t used = 0;
  int total = 0;
  if (bytes > 0) text[0] = '\0';
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    total += lines[i].count;
    if (lines[i].count == 0 || used >= bytes) continue;
    used += (size_t)snprintf(text + used, bytes - used, "%s%d %s%s", used > 0 ? ", " : "",
                             lines[i].count, lines[i].name, lines[i].count > 1 ? "s" : "");
  }
  return total;
}

bool standin_busy(void) {
  bool busy = false;
  standin_lock();
  for (cuda_stream_t s = standin.streams; s != NULL; s = s->next) busy |= s->first != NULL;
  standin_unlock();
  return busy;
}

__attribute__((destructor)) static void report(void) {
  char text[256];
  if (standin.pid != getpid()) return;
  int total = standin_leaks(text, sizeof text);
  if (total > 0) fprintf(stderr, "libcuda stand-in: %d left at exit: %s\n", total, text);
  if (standin_setting("COLL_STANDIN_STRICT", 0) == 0) return;
  if (total == 0 && standin_misuses() == 0) return;
  fflush(NULL);
  _exit(STANDIN_STRICT_EXIT);
}
