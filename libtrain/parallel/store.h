/*
 * The parameter store: parameters, gradients and moments of a part of the model (model/layout.h)
 * on the ranks that hold the same part, those of data and context parallelism, replicated or
 * partitioned by ZeRO stage 0 to 3 (Rajbhandari et al. 2020). The model's passes use it as a
 * train_param_provider_t. Gradients are reduced bucket by bucket on a host stream during the
 * backward pass. At stage 3 each unit is gathered while the previous one is used, and freed after
 * its use. Results do not depend on stage or overlap, except for the order in which the ranks'
 * values are added.
 *
 * In mixed precision the passes read the weights, a copy of the float32 parameters rounded to
 * nearest. Every rank has all weights at stages 0 to 2 and shards of them at stage 3. Only the
 * weights are gathered, so from stage 1 on a rank has only its shards of the parameters.
 */
#ifndef LIBTRAIN_PARALLEL_STORE_H
#define LIBTRAIN_PARALLEL_STORE_H

#include "libtrain/files/pieces.h"
#include "libtrain/model/layout.h"
#include "libtrain/model/param_provider.h"
#include "libtrain/parallel/optimizer.h"
#include "libtrain/parallel/store_options.h"

typedef struct train_store train_store_t;
struct train_axis;

/* Creates a store with everything zero; allocates all its memory. Layout and group must outlive
 * it. Not collective, but all ranks must pass the same options. COLL_ERROR_INVALID,
 * COLL_ERROR_MEMORY. */
coll_status_t train_store_create(const train_layout_t *layout, const train_group_t *group,
                                 const train_store_options_t *options, train_store_t **store);

/* Waits for communication in progress. If ranks are threads of one process and one of them failed,
 * all must have stopped before the first store is destroyed. */
void train_store_destroy(train_store_t *store);

/* ---- contents ----------------------------------------------------------------------------- */

/* Loads parameters and moments from `from`; every rank reads what it stores. Parameters that are
 * not float32 are rounded to nearest; what was saved from such a store comes back exactly. Not
 * collective. */
coll_status_t train_store_load(train_store_t *store, const train_flat_t *from);

/* Initializes the parameters of a new model (train_layout_initialize) and zero moments. */
coll_status_t train_store_initialize(train_store_t *store, uint64_t seed);

/* The elements that this rank owns, for saving (parallel/save.h). Of what several ranks hold alike,
 * each owns a part. Valid between steps. */
train_pieces_t train_store_pieces(const train_store_t *store);

/* The store as a flat space. Reads are collective: between steps all ranks make the same reads in
 * the same order. */
train_flat_t train_store_flat(train_store_t *store);

/* ---- a step: begin, one forward and backward pass per micro-batch, finish, update --------- */

/* The provider for the passes. All ranks must run the same passes in the same order, including
 * evaluation: at stage 3 each acquisition is collective. */
train_param_provider_t train_store_provider(train_store_t *store);

/* Starts an accumulation cycle of that many micro-batches, or with slices of as many backward
 * passes. */
void train_store_begin(train_store_t *store, int micro_batches);

/* Waits until all gradients are reduced. *squares is this rank's part of the squared global
 * gradient norm; the sum over all ranks of the job is the total: elements that several parts hold
 * count in one of them. */
coll_status_t train_store_finish(train_store_t *store, double *squares);

/* AdamW step number `step` on this rank's shards, with gradients multiplied by gradient_scale.
 * Afterwards every rank has the updated parameters that it stores. */
coll_status_t train_store_update(train_store_t *store, const train_adamw_t *adamw,
                                 float gradient_scale, float rate, uint64_t step);

/* After each update, rank 0 of the axis sends its weights of the token table to the other, which
 * holds a copy of them: the last stage of a pipeline. For ZeRO stages 0 and 1; the axis must
 * outlive the store. */
void train_store_share_table(train_store_t *store, struct train_axis *axis);

/* Finds the tensor in which computation has failed, for an error message: one with a weight that is
 * infinite or NaN or, if there is none, with such a gradient. *tensor is its index in the
 * whole model's layout, -1 if all values are finite; *kind is TRAIN_KIND_WEIGHTS or
 * TRAIN_KIND_GRADIENTS. Of several it is the last in layout order, which backward passes visit
 * first. Collective over `group`, whose ranks hold the whole model together, after
 * train_store_finish; the result is the same on all of them. */
coll_status_t train_store_find_not_finite(train_store_t *store, const train_group_t *group,
                                          int *tensor, train_kind_t *kind);

/* ---- statistics --------------------------------------------------------------------------- */

typedef struct train_traffic {
  uint64_t bytes_sent; /* counted as in the ZeRO paper, see memory.h */
  uint64_t waited_ns;  /* time that the calling thread waited for communication */
} train_traffic_t;

/* Since the latest train_store_begin. */
train_traffic_t train_store_traffic(const train_store_t *store);

/* Records collectives on a track of the trace, NULL: no longer. The trace must outlive the store
 * or be taken from it. */
struct train_trace;
void train_store_record(train_store_t *store, struct train_trace *trace, int track);

/* Enables or disables overlap between steps, overriding the options. Results are the same. */
void train_store_set_overlap(train_store_t *store, bool overlap);

const train_store_options_t *train_store_options(const train_store_t *store);
const train_layout_t *train_store_layout(const train_store_t *store);

/* A digest of the model sizes and options, which must be equal on all ranks. */
uint64_t train_store_digest(const train_store_t *store);

/* Bytes allocated by train_store_create, without bookkeeping. */
size_t train_store_bytes(const train_store_t *store);

#endif
