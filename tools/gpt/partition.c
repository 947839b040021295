/* Reads the options; libtrain/schedule/stages.h cuts. */
#include "tools/gpt/partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/schedule/stages.h"
#include "tools/gpt/lists.h"

coll_status_t gpt_layer_costs_read(const char *text, double **costs, int *count) {
  double sum = 0;
  COLL_TRY(base_alloc(GPT_LIST_MAX, sizeof(double), "layers", (void **)costs));
  *count = gpt_list_numbers(text, *costs);
  for (int i = 0; i < *count; i++) sum += (*costs)[i];
  if (sum > 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--layer-costs %s: give the times of embedding, blocks and head, at most %d, "
                   "such as 0.5,12*1,3",
                   text, GPT_LIST_MAX);
}

void gpt_layer_costs_round(double costs[], int count) {
  for (int i = 0; i < count; i++) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.3g", costs[i]);
    costs[i] = strtod(digits, NULL);
  }
}

const char *gpt_layer_costs_text(const double costs[], int count,
                                 char text[GPT_LAYER_COSTS_BYTES]) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0, alike; i < count && used < GPT_LAYER_COSTS_BYTES; i += alike) {
    char times[16] = "";
    for (alike = 1; i + alike < count && costs[i + alike] == costs[i];) alike++;
    if (alike > 1) snprintf(times, sizeof times, "%d*", alike);
    used += (size_t)snprintf(text + used, GPT_LAYER_COSTS_BYTES - used, "%s%s%.3g",
                             i > 0 ? "," : "", times, costs[i]);
  }
  return text;
}

static coll_status_t read_blocks(const char *text, gpt_partition_t *partition) {
  void *memory;
  COLL_TRY(base_alloc(GPT_LIST_MAX, sizeof(double), "stages", &memory));
  double *numbers = memory;
  int count = gpt_list_numbers(text, numbers), valid = count > 0;
  for (int i = 0; i < count; i++) valid = valid && numbers[i] == (int)numbers[i];
  coll_status_t status = COLL_OK;
  if (!valid) {
    status = base_fail(COLL_ERROR_INVALID,
                       "--partition %s: give even, profile, or the layers of each stage, such as "
                       "3,4*5,2",
                       text);
  } else {
    status = base_alloc((size_t)count, sizeof(int), "stages", (void **)&partition->blocks);
  }
  for (int i = 0; i < count && status == COLL_OK; i++) partition->blocks[i] = (int)numbers[i];
  partition->ranges = count;
  free(numbers);
  return status;
}

coll_status_t gpt_partition_read(const char *partition, const char *layer_costs,
                                 gpt_partition_t *result) {
  *result = (gpt_partition_t){0};
  if (partition != NULL && layer_costs != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--partition %s and --layer-costs both say how layers are cut into stages: "
                     "leave one of the two out",
                     partition);
  }
  if (layer_costs != NULL) {
    result->kind = GPT_PARTITION_COSTS;
    return gpt_layer_costs_read(layer_costs, &result->costs, &result->cost_count);
  }
  if (partition == NULL || strcmp(partition, "even") == 0) return COLL_OK;
  result->kind = GPT_PARTITION_PROFILE;
  if (strcmp(partition, "profile") == 0) return COLL_OK;
  result->kind = GPT_PARTITION_BLOCKS;
  return read_blocks(partition, result);
}

void gpt_partition_free(gpt_partition_t *partition) {
  free(partition->costs);
  free(partition->blocks);
  *partition = (gpt_partition_t){0};
}

coll_status_t gpt_partition_check_costs(const gpt_partition_t *partition,
                                        const train_model_config_t *config) {
  if (partition->costs == NULL || partition->cost_count == config->layers + 2) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--layer-costs gives %d times, but the model has an embedding, %d blocks and a "
                   "head: give %d",
                   partition->cost_count, config->layers, config->layers + 2);
}

coll_status_t gpt_partition_cut(const train_model_config_t *config, int ranges,
                                gpt_partition_t *partition) {
  COLL_TRY(gpt_partition_check_costs(partition, config));
  if (partition->costs == NULL || ranges > config->layers + 2) return COLL_OK;
  free(partition->blocks);
  partition->blocks = NULL;
  COLL_TRY(base_alloc((size_t)ranges, sizeof(int), "stages", (void **)&partition->blocks));
  partition->ranges = ranges;
  return train_stages_blocks(partition->costs, config->layers, ranges, partition->blocks);
}
