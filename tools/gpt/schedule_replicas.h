/* gpt schedule --ranks: PipeDream's partition, in which stages have unequal numbers of replicas. */
#ifndef TOOLS_GPT_SCHEDULE_REPLICAS_H
#define TOOLS_GPT_SCHEDULE_REPLICAS_H

#include "base/options.h"
#include "base/status.h"

typedef struct gpt_replicas {
  int64_t ranks, max_replicas;               /* 0: not given; 0: as many as ranks */
  const char *weights_text, *transfers_text; /* NULL: not given; lists for gpt_list_numbers */
} gpt_replicas_t;

/* --ranks, --max-replicas, --layer-weights, --transfers. */
#define GPT_REPLICAS_OPTIONS 4
void gpt_replicas_options(gpt_replicas_t *replicas, base_option_t options[GPT_REPLICAS_OPTIONS]);

/* Cuts layers[count] over the ranks and prints the stages with their replicas and predicted times.
 * COLL_ERROR_INVALID: the lists are not of these layers, or the ranks too many. */
coll_status_t gpt_replicas_show(const gpt_replicas_t *replicas, const double layers[], int count);

/* COLL_ERROR_INVALID: the others are given without --ranks. */
coll_status_t gpt_replicas_check_absent(const gpt_replicas_t *replicas);

#endif
