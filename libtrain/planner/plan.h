/*
 * A pure model of what a layout of a training run costs: nothing is allocated and no model runs. A
 * layout says how the ranks of a job divide the model (tensor and pipeline axes), its sequences
 * (context axis) and the batch (data axis); the planner says whether it is possible, what it needs
 * of memory and sends on each axis, and how long a step takes on a machine of given speeds.
 *
 * Symbols: L layers of width C with H heads, V tokens; sequences of T tokens, a batch of B
 * sequences in M micro-batches; d, t, c, p ranks along the data, tensor, context and pipeline axes;
 * e bytes of an activation. b = B / (d M) sequences form a micro-batch.
 */
#ifndef LIBTRAIN_PLANNER_PLAN_H
#define LIBTRAIN_PLANNER_PLAN_H

#include <stdint.h>

#include "base/status.h"
#include "libtrain/mesh/shape.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/model_options.h"
#include "libtrain/schedule/schedule.h"

typedef enum train_plan_link {
  TRAIN_PLAN_INSIDE,  /* both ranks are on one host */
  TRAIN_PLAN_BETWEEN, /* on two hosts */
  TRAIN_PLAN_LINKS
} train_plan_link_t;

typedef struct train_plan_layout {
  train_mesh_shape_t mesh;
  train_schedule_shape_t schedule; /* of one step; as many stages as the mesh's pipeline axis */
  const int *blocks;               /* [block_ranges]: layers of each virtual stage; NULL: evenly */
  int block_ranges;                /* stages * chunks */
  train_slices_t slices;           /* as many as the schedule has, if these are several */
  int zero;                        /* ZeRO stage over the data and context ranks */
  bool sequence;                   /* sequence parallelism (Korthikanti et al. 2022) */
  train_context_kind_t attention;  /* along the context axis */
  train_recompute_t recompute;
} train_plan_layout_t;

/* What is trained. */
typedef struct train_plan_job {
  train_model_config_t model;
  int batch;              /* sequences per step, over all ranks; each of the model's context */
  double capacity_factor; /* of experts; 0: nothing is dropped */
  train_precision_t precision;
  bool bfloat16_gradients; /* sent in bfloat16 */
  size_t bucket_bytes;     /* of one collective on the data axis */
  train_pool_t *pool;      /* of a rank: its threads determine scratch memory; may be NULL */
  uint64_t memory;         /* bytes of a rank; 0: no limit */
} train_plan_job_t;

/* Where it is trained. */
typedef struct train_plan_machine {
  int ranks;
  const int *host_of;                 /* [ranks]: by place of the mesh */
  double bandwidth[TRAIN_PLAN_LINKS]; /* bytes/s that a rank sends, all ranks at once */
  double latency_s[TRAIN_PLAN_LINKS]; /* of a message */
  double flops;                       /* FLOP/s of a rank in matrix products */
  double operator_bandwidth; /* bytes/s that a rank reads and writes in other operators, and in */
  double update_bandwidth;   /* updates of parameters; 0: they take no time */
} train_plan_machine_t;

/* Why a layout is impossible. */
typedef enum train_plan_limit {
  TRAIN_PLAN_POSSIBLE,
  TRAIN_PLAN_LIMIT_MESH,      /* the model cannot be divided so (mesh/fit.h) */
  TRAIN_PLAN_LIMIT_BATCH,     /* the batch does not divide among data ranks and micro-batches */
  TRAIN_PLAN_LIMIT_ZERO,      /* ZeRO 2 and 3 with a pipeline */
  TRAIN_PLAN_LIMIT_SLICES,    /* sequences cannot be cut into slices so */
  TRAIN_PLAN_LIMIT_RECOMPUTE, /* recomputation with a split backward pass */
  TRAIN_PLAN_LIMIT_BUCKET,    /* buckets are too small for the ranks */
  TRAIN_PLAN_LIMIT_SCHEDULE,  /* the schedule cannot have this shape */
  TRAIN_PLAN_LIMIT_MEMORY     /* a rank needs more memory than it has */
} train_plan_limit_t;

/* Bytes of the rank that needs most. */
typedef struct train_plan_memory {
  size_t parameters, weights, gradients, moments, workspaces; /* as train_memory_t; weights with
                                                               * older versions of them */
  size_t activations; /* of all micro-batches that are in the pipeline at once */
  size_t buffers;     /* of messages between stages */
  size_t total;
  int stage; /* the pipeline rank that it is */
} train_plan_memory_t;

/* Bytes sent per step by all ranks together, so that they are whole numbers, on the groups TP, CP,
 * PP, DATA (gradients and parameters), EMBEDDING (the token table's gradients), EP (tokens) and
 * EXPERT_DATA (experts' gradients and parameters). A rank sends the ranks-th part on average. */
typedef struct train_plan_traffic {
  uint64_t bytes[TRAIN_MESH_GROUPS][TRAIN_PLAN_LINKS];
  uint64_t messages[TRAIN_MESH_GROUPS]; /* consecutive ones of a rank and step, for latency */
} train_plan_traffic_t;

/* Seconds per step. */
typedef struct train_plan_time {
  double compute;                    /* of the slowest stage, with recomputation */
  double elementwise;                /* of it the operators other than products */
  double bubble;                     /* that stage waits for others */
  double exposed[TRAIN_MESH_GROUPS]; /* communication that does not run beside computation */
  double update;                     /* of the slowest stage's parameters */
  double step;                       /* the sum, without elementwise */
  double bubble_share;               /* of the pipeline's time, by the schedule's closed formula */
  double utilization; /* train_metrics_flops_per_token against the machine's FLOP/s */
} train_plan_time_t;

typedef struct train_plan_cost {
  train_plan_memory_t memory;
  train_plan_traffic_t traffic;
  train_plan_time_t time;
} train_plan_cost_t;

/* Whether the layout is possible, apart from memory. COLL_ERROR_INVALID: the message says what does
 * not fit, and the nearest that does; *limit is then the reason. */
coll_status_t train_plan_check(const train_plan_job_t *job, const train_plan_layout_t *layout,
                               train_plan_limit_t *limit);

/* Predicts a layout that passes train_plan_check. COLL_ERROR_INVALID: a rank needs more memory than
 * the job's limit (*cost is valid then), or buckets are too small; *limit says which. */
coll_status_t train_plan_predict(const train_plan_job_t *job, const train_plan_layout_t *layout,
                                 const train_plan_machine_t *machine, train_plan_cost_t *cost,
                                 train_plan_limit_t *limit);

/* Bytes of all kinds together. */
uint64_t train_plan_bytes(const train_plan_traffic_t *traffic, train_mesh_group_t group);

#endif
