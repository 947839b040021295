/* --partition and --layer-costs: which layers the stages of a pipeline have. */
#ifndef TOOLS_GPT_PARTITION_H
#define TOOLS_GPT_PARTITION_H

#include "libtrain/model/layout.h"

typedef enum gpt_partition_kind {
  GPT_PARTITION_EVEN,
  GPT_PARTITION_PROFILE, /* by costs that are yet to be measured */
  GPT_PARTITION_COSTS,
  GPT_PARTITION_BLOCKS
} gpt_partition_kind_t;

typedef struct gpt_partition {
  gpt_partition_kind_t kind;
  double *costs; /* [cost_count]: of embedding, blocks and head; NULL: not known */
  int cost_count;
  int *blocks; /* [ranges]: of each virtual stage; NULL: evenly, or not cut by the costs yet */
  int ranges;
} gpt_partition_t;

/* Either may be NULL: not given. COLL_ERROR_INVALID: they are no such lists, or both are given. The
 * caller calls gpt_partition_free, also after a failure. */
coll_status_t gpt_partition_read(const char *partition, const char *layer_costs,
                                 gpt_partition_t *result);
void gpt_partition_free(gpt_partition_t *partition);

/* COLL_ERROR_INVALID: there are costs of other layers than the model's. */
coll_status_t gpt_partition_check_costs(const gpt_partition_t *partition,
                                        const train_model_config_t *config);

/* Cuts by the costs, if there are some, into virtual stages, unless these are more than the layers
 * with embedding and head. COLL_ERROR_INVALID as above. */
coll_status_t gpt_partition_cut(const train_model_config_t *config, int ranges,
                                gpt_partition_t *partition);

/* Times of layers, such as "0.5,12*1,3", in new memory. COLL_ERROR_INVALID: the text has none. */
coll_status_t gpt_layer_costs_read(const char *text, double **costs, int *count);

/* The way back, of three digits each. Cut off if it is too long. Returns `text`. */
#define GPT_LAYER_COSTS_BYTES 512
const char *gpt_layer_costs_text(const double costs[], int count, char text[GPT_LAYER_COSTS_BYTES]);

/* To the digits of that text, so that the costs and their text are cut alike. */
void gpt_layer_costs_round(double costs[], int count);

#endif
