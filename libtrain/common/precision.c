/* The table of precisions. */
#include "libtrain/common/precision.h"

#include <stddef.h>

/* In order: parameters, weights, activations, gradients, moments, statistics. */
static const train_policy_t policies[TRAIN_PRECISIONS] = {
    [TRAIN_PRECISION_FLOAT32] = {.name = "float32",
                                 .about = "everything in float32",
                                 .stored = {TRAIN_FLOAT32, TRAIN_FLOAT32, TRAIN_FLOAT32,
                                            TRAIN_FLOAT32, TRAIN_FLOAT32, TRAIN_FLOAT32}},
    [TRAIN_PRECISION_BF16] = {.name = "bf16",
                              .about =
                                  "products and activations in bfloat16, parameters in float32",
                              .stored = {TRAIN_FLOAT32, TRAIN_BFLOAT16, TRAIN_BFLOAT16,
                                         TRAIN_FLOAT32, TRAIN_FLOAT32, TRAIN_FLOAT32}},
    [TRAIN_PRECISION_FP16] = {.name = "fp16",
                              .about = "the same in float16, with loss scaling",
                              .stored = {TRAIN_FLOAT32, TRAIN_FLOAT16, TRAIN_FLOAT16, TRAIN_FLOAT32,
                                         TRAIN_FLOAT32, TRAIN_FLOAT32},
                              .loss_scaling = true},
    [TRAIN_PRECISION_BF16_PURE] = {
        .name = "bf16-pure",
        .about = "also the parameters in bfloat16, stochastically rounded",
        .stored = {TRAIN_BFLOAT16, TRAIN_BFLOAT16, TRAIN_BFLOAT16, TRAIN_FLOAT32, TRAIN_FLOAT32,
                   TRAIN_FLOAT32},
        .stochastic_rounding = true}};

const char *const train_precision_names[] = {"float32", "bf16", "fp16", "bf16-pure", NULL};

const train_policy_t *train_policy_of(train_precision_t precision) {
  return &policies[precision];
}

const char *train_kind_name(train_kind_t kind) {
  static const char *const names[] = {"parameters", "weights", "activations",
                                      "gradients",  "moments", "statistics"};
  return names[kind];
}
