/* The parts of gpt plan: the table of ZeRO stages, the list of layouts, the ZeRO paper's tables. */
#ifndef TOOLS_GPT_PLAN_H
#define TOOLS_GPT_PLAN_H

#include <jansson.h>

#include "libtrain/planner/search.h"
#include "tools/gpt/settings.h"

/* Prints Table 1 or the left half of Table 2 of the ZeRO paper (libtrain/planner/zero_tables.h). */
void gpt_plan_zero_table(int table);

/* Prints memory and bytes sent at every ZeRO stage on each of the numbers of ranks, which divide
 * the batch; *document, a new JSON object, has the same. COLL_ERROR_INVALID: --bucket is too small.
 */
coll_status_t gpt_plan_stages(const gpt_settings_t *settings, const train_layout_t *layout,
                              train_pool_t *pool, const int64_t ranks[], int count,
                              json_t **document);

/* ---- layouts ---- */

/* Options of the list of layouts, beside those of gpt train. */
typedef struct gpt_plan_options {
  bool model;           /* --model was given */
  const char *topology; /* a file of colltopo; NULL: hosts of host_ranks ranks */
  int64_t host_ranks, rows;
  uint64_t memory;                                  /* of a rank, in bytes; 0: no limit */
  double tflops, host_bandwidth, network_bandwidth; /* TFLOP/s, GB/s; 0: of the topology */
  double memory_bandwidth;                          /* GB/s; 0: of its GPUs, or assumed */
} gpt_plan_options_t;

/* Speeds of a machine and where they are from. */
typedef struct gpt_plan_machine {
  train_plan_machine_t machine;
  int *host_of; /* owned */
  int hosts;
  uint64_t memory;  /* bytes of a rank; 0: no limit */
  char source[128]; /* of the FLOP/s: "half of what the H100 SXM's data sheet says" */
} gpt_plan_machine_t;

/* What is planned. */
typedef struct gpt_plan_layouts {
  const gpt_settings_t *settings;
  const gpt_plan_options_t *options;
  const train_layout_t *model;
  train_plan_job_t job;
  gpt_plan_machine_t machine;
  train_plan_list_t list;
} gpt_plan_layouts_t;

/* Finds the fastest layouts of the settings' model on `ranks` ranks and prints them; *document, a
 * new JSON object, has all of them. */
coll_status_t gpt_plan_layouts(const gpt_settings_t *settings, const gpt_plan_options_t *options,
                               const train_layout_t *model, train_pool_t *pool, int ranks,
                               json_t **document);

/* ranks: of the job. The caller calls gpt_plan_machine_free, also after a failure. */
coll_status_t gpt_plan_machine_init(const gpt_plan_options_t *options, train_precision_t precision,
                                    int ranks, gpt_plan_machine_t *machine);
void gpt_plan_machine_free(gpt_plan_machine_t *machine);

/* The tables of the fastest layouts, as many as the options say. */
void gpt_plan_print(const gpt_plan_layouts_t *plan);

/* Why the first is faster than the second, and why others are impossible. */
void gpt_plan_explain(const gpt_plan_layouts_t *plan);

/* All layouts as a new JSON object. */
json_t *gpt_plan_json(const gpt_plan_layouts_t *plan);

#endif
