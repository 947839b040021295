/*
 * Whether a model and a batch can be divided as a mesh does. Each refusal says what cannot be
 * divided and the nearest value that can.
 */
#ifndef LIBTRAIN_MESH_FIT_H
#define LIBTRAIN_MESH_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "libtrain/mesh/shape.h"
#include "libtrain/model/layout.h"

/* What is divided besides the model's sizes. */
typedef struct train_mesh_demands {
  int virtual_stages;     /* chunks of layers on each stage; 0 or 1: one */
  int micro_batches;      /* per step; 0: unknown */
  int experts;            /* of each layer; 0: none */
  bool ulysses;           /* context parallelism by alltoall over heads; false: ring attention */
  bool sequence_parallel; /* norms and residuals are cut over tp */
  const int *blocks;      /* [block_ranges]: layers of each virtual stage; NULL: evenly */
  int block_ranges;
  bool model_is_fixed; /* it is from a file, so that refusals name no other sizes of it */
} train_mesh_demands_t;

/* COLL_ERROR_INVALID:
 *   tp   does not divide the heads, or is more than the vocabulary
 *   cp   ring attention: 2 cp does not divide the context (each rank has two segments, so that all
 *        have equal work under the causal mask); Ulysses: cp does not divide the context, or tp cp
 *        does not divide the heads
 *   pp   has more stages (times virtual stages) than the model has layers, or others than `blocks`
 *        gives layers to; these are not the model's, or a stage between the first and the last has
 *        none; with virtual stages pp does not divide the micro-batches; virtual stages without a
 *        pipeline
 *   ep   does not divide the experts, or there are none
 *   etp  is not tp, and there are no experts
 *   sequence parallelism: tp does not divide the tokens that a rank has of a sequence, context / cp
 */
coll_status_t train_mesh_fit(const train_mesh_shape_t *shape, const train_model_config_t *config,
                             const train_mesh_demands_t *demands);

#endif
