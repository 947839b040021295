/* Ranks are named by their place in the mesh. */
#include "tools/gpt/trace.h"

#include <inttypes.h>
#include <stdio.h>

#include "libtrain/parallel/trace_file.h"

/* Fails before training rather than after it. An older trace stays until then. */
static coll_status_t probe(const char *path) {
  FILE *file = fopen(path, "ae");
  if (file == NULL) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the trace %s", path);
  }
  fclose(file);
  return COLL_OK;
}

coll_status_t gpt_trace_open(const gpt_settings_t *settings, const train_group_t *group,
                             train_trace_t **trace) {
  *trace = NULL;
  if (settings->trace == NULL) return COLL_OK;
  if (group->rank == 0) COLL_TRY(probe(settings->trace));
  return train_trace_create(TRAIN_TRACE_SPANS, trace);
}

/* "rank 3 (tp 1, dp 1)". */
static void name_rank(const train_mesh_t *mesh, int rank, char title[TRAIN_TRACE_TITLE_BYTES]) {
  size_t size = TRAIN_TRACE_TITLE_BYTES;
  size_t used = (size_t)snprintf(title, size, "rank %d", rank), begin = used;
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    train_mesh_group_t group = (train_mesh_group_t)axis;
    if (mesh->shape.size[axis] == 1) continue;
    used += (size_t)snprintf(title + used, size - used, "%s%s %d", used == begin ? " (" : ", ",
                             train_mesh_group_name(group), train_mesh_rank(mesh, group));
  }
  if (used > begin) snprintf(title + used, size - used, ")");
}

coll_status_t gpt_trace_write(const train_trace_t *trace, const gpt_settings_t *settings,
                              const train_group_t *group, const gpt_parallel_t *parallel) {
  char title[TRAIN_TRACE_TITLE_BYTES];
  train_trace_counts_t counts;
  if (trace == NULL) return COLL_OK;
  name_rank(parallel->mesh, group->rank, title);
  COLL_TRY(train_trace_write(trace, group, title, settings->trace, &counts));
  if (group->rank > 0) return COLL_OK;
  printf("trace %s: ", settings->trace);
  if (counts.kept < counts.recorded) printf("the last ");
  printf("%" PRIu64, counts.kept);
  if (counts.kept < counts.recorded) printf(" of %" PRIu64, counts.recorded);
  printf(" spans of %d rank%s\n", group->size, group->size > 1 ? "s" : "");
  return COLL_OK;
}
