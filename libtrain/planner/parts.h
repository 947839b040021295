/*
 * What layouts have in common that divide the ranks alike, so that a search computes it once: the
 * parts of the model that pipeline ranks hold, and on which links messages travel. Then what the
 * planner computes of them.
 */
#ifndef LIBTRAIN_PLANNER_PARTS_H
#define LIBTRAIN_PLANNER_PARTS_H

#include "libtrain/parallel/partition.h"
#include "libtrain/planner/plan.h"

static inline int plan_size(const train_plan_layout_t *layout, train_mesh_group_t group) {
  return layout->mesh.size[group];
}

/* Sequences of a micro-batch on a data rank. */
static inline int plan_sequences(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  return job->batch / (plan_size(layout, TRAIN_MESH_DP) * layout->schedule.micro_batches);
}

/* Positions of a micro-batch on a context rank. */
static inline uint64_t plan_rows(const train_plan_job_t *job, const train_plan_layout_t *layout) {
  int length = job->model.context / plan_size(layout, TRAIN_MESH_CP);
  return (uint64_t)plan_sequences(job, layout) * (uint64_t)length;
}

/* Of the longest pass: a micro-batch, or a slice of it. */
static inline uint64_t plan_pass_rows(const train_plan_job_t *job,
                                      const train_plan_layout_t *layout) {
  int length = job->model.context / plan_size(layout, TRAIN_MESH_CP);
  return (uint64_t)plan_sequences(job, layout) *
         (uint64_t)train_slices_longest(&layout->slices, length);
}

/* ---- parts ---- */

/* What the pipeline ranks hold. */
typedef struct plan_parts {
  int count;
  train_layout_t **layouts; /* [count]: for tensor rank 0 */
  int *slots;               /* [count]: micro-batches in flight in each chunk */
  int *copies;              /* [count]: older versions of the weights */
  int window;               /* buffers of a channel between stages; 0: one stage */
} plan_parts_t;

/* Depends on the layout's tensor ranks and its schedule only, not on lengths of slices.
 * COLL_ERROR_INVALID: the model or the schedule cannot be divided so. The caller calls
 * plan_parts_free, also after a failure. */
coll_status_t plan_parts_init(const train_plan_job_t *job, const train_plan_layout_t *layout,
                              plan_parts_t *parts);
void plan_parts_free(plan_parts_t *parts);

/* Of a pipeline rank, for tensor rank 0. */
train_part_t plan_part(const train_plan_job_t *job, const train_plan_layout_t *layout, int rank);
int plan_part_layers(const train_part_t *part);

/* The partition of a pipeline rank's parameters, which is that of all of its tensor ranks. The
 * caller destroys it. */
coll_status_t plan_partition(const train_plan_job_t *job, const train_plan_layout_t *layout,
                             int rank, train_partition_t **partition);

/* Elements that a rank of the part updates: from ZeRO stage 1 on its share of them. */
double plan_updated_elements(const train_plan_job_t *job, const train_plan_layout_t *layout,
                             const train_part_t *part);

/* Bytes that a rank of the part reads and writes in operators other than products (elementwise.c
 * has the formula), for each position that goes through it; and in a step to update parameters. */
double plan_elementwise_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout,
                              const train_part_t *part);
double plan_update_bytes(const train_plan_job_t *job, const train_plan_layout_t *layout,
                         const train_part_t *part);

/* Of a pipeline rank; and of the one that needs most. */
coll_status_t plan_memory_of_stage(const train_plan_job_t *job, const train_plan_layout_t *layout,
                                   const plan_parts_t *parts, int rank,
                                   train_plan_memory_t *memory);
coll_status_t plan_memory(const train_plan_job_t *job, const train_plan_layout_t *layout,
                          const plan_parts_t *parts, train_plan_memory_t *memory);

/* ---- links ---- */

/* The shares of messages that go between hosts, by group: of those to the next member of a ring; of
 * those to all other members; and of those from a stage to the next, and from the last to the first
 * one. */
typedef struct plan_links {
  double ring[TRAIN_MESH_GROUPS], all[TRAIN_MESH_GROUPS], next_stage, first_stage;
} plan_links_t;

/* COLL_ERROR_MEMORY. */
coll_status_t plan_links_init(const train_mesh_shape_t *mesh, const train_plan_machine_t *machine,
                              plan_links_t *links);

coll_status_t plan_traffic(const train_plan_job_t *job, const train_plan_layout_t *layout,
                           const plan_links_t *links, train_plan_traffic_t *traffic);

void plan_time(const train_plan_job_t *job, const train_plan_layout_t *layout,
               const train_plan_machine_t *machine, const train_plan_traffic_t *traffic,
               train_plan_time_t *time);

/* COLL_ERROR_INVALID: the rank needs more than the job's limit. */
coll_status_t plan_check_memory(const train_plan_job_t *job, const train_plan_memory_t *memory);

#endif
