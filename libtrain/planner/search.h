/* The search for the fastest layouts of a job. */
#ifndef LIBTRAIN_PLANNER_SEARCH_H
#define LIBTRAIN_PLANNER_SEARCH_H

#include "libtrain/planner/plan.h"

/* What the user has decided; the search chooses the rest. */
typedef struct train_plan_wanted {
  train_mesh_options_t mesh;         /* sizes and an ep of 0 are free */
  int micro_batches, virtual_stages; /* 0: free */
  int slices;                        /* of TeraPipe; 0: TRAIN_PLAN_SLICES (slices.h) */
  train_slices_t slice_lengths;      /* those, if there are several */
  const int *blocks;                 /* [block_ranges]: layers of each virtual stage, or */
  int block_ranges;
  const double *layer_costs; /* [layers + 2]: times of embedding, blocks and head, by which
                              * they are cut into stages; both NULL: evenly */
  int zero, sequence, attention, schedule, recompute; /* -1: free */
} train_plan_wanted_t;

#define TRAIN_PLAN_WANTED_INIT \
  { .zero = -1, .sequence = -1, .attention = -1, .schedule = -1, .recompute = -1 }

#define TRAIN_PLAN_REASON_BYTES 320

/* A division of the ranks among the four axes. */
typedef struct train_plan_candidate {
  train_plan_layout_t layout; /* the fastest of this division; the one that came nearest if none is
                               * possible */
  train_plan_cost_t cost;     /* only if it is possible */
  train_plan_limit_t limit;   /* TRAIN_PLAN_POSSIBLE, or why no layout is */
  char reason[TRAIN_PLAN_REASON_BYTES]; /* a sentence; "" if possible */
} train_plan_candidate_t;

typedef struct train_plan_list {
  train_plan_candidate_t *candidates; /* [count]: possible ones first, fastest first */
  int count, possible;
  int64_t layouts; /* that were looked at */
  int **cuts;      /* [layers + 3]: by layer_costs into so many stages; NULL: not needed */
  int cut_count;
} train_plan_list_t;

/* Divides the ranks of the machine in all ways. Of each division the layout with the shortest step
 * is taken; of layouts within 0.5 % the one that needs less memory. Schedules that change the
 * result of training (PipeDream) are among them only if they are wanted, and TeraPipe likewise: its
 * short products take longer than the count of FLOPs says. COLL_ERROR_INVALID: what is
 * wanted of the mesh is impossible; COLL_ERROR_MEMORY. The caller calls train_plan_list_free.
 */
coll_status_t train_plan_search(const train_plan_job_t *job, const train_plan_machine_t *machine,
                                const train_plan_wanted_t *wanted, train_plan_list_t *list);
void train_plan_list_free(train_plan_list_t *list);

/* The options of gpt train that give the layout: "--dp 8 --tp 4 --accumulate 8". Options at their
 * defaults are left out, except --dp. Returns `text`. */
#define TRAIN_PLAN_FLAGS_BYTES 1024
const char *train_plan_flags(const train_plan_layout_t *layout, char text[TRAIN_PLAN_FLAGS_BYTES]);

#endif
