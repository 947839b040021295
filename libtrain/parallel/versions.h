/*
 * Older versions of the weights, for schedules that update before all micro-batches in flight have
 * ended: each of them ends with the weights that it began with (weight stashing, Narayanan et al.
 * 2019), which are those of the same update on all stages (vertical sync). Version v contains v
 * updates since the pipeline was empty.
 *
 * It stands between the passes and the store as a provider (model/param_provider.h): the newest
 * version is the store's, older ones are copies. Gradients go to the store.
 */
#ifndef LIBTRAIN_PARALLEL_VERSIONS_H
#define LIBTRAIN_PARALLEL_VERSIONS_H

#include "libtrain/model/param_provider.h"

typedef struct train_versions {
  train_param_provider_t inner;
  const train_layout_t *layout;
  train_dtype_t dtype; /* of the weights */
  int copies;
  void *memory;     /* [copies, parameter_count]; version v is in copy v % copies */
  int newest, used; /* versions: the inner provider's, and that of the next passes */
} train_versions_t;

/* For passes that use the newest version and the `copies` before it. The inner provider must have
 * all weights at any time (ZeRO stages 0 and 1); it and the layout must outlive this one.
 * COLL_ERROR_MEMORY. */
coll_status_t train_versions_init(const train_layout_t *layout, train_param_provider_t inner,
                                  train_dtype_t dtype, int copies, train_versions_t *versions);
void train_versions_free(train_versions_t *versions);

/* Bytes of the copies. */
size_t train_versions_bytes(const train_layout_t *layout, train_dtype_t dtype, int copies);

/* The provider for the passes; without copies it is the inner one. */
train_param_provider_t train_versions_provider(train_versions_t *versions);

/* The pipeline is empty: the weights are version 0. */
void train_versions_begin(train_versions_t *versions);

/* Before an update: keeps the newest version. After it the inner provider has the next one. */
coll_status_t train_versions_keep(train_versions_t *versions);

/* The version that the next passes use: the newest, or one of the `copies` before it. */
void train_versions_use(train_versions_t *versions, int version);

#endif
