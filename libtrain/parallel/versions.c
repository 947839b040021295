/* Copies of all units, in the order of the layout. */
#include "libtrain/parallel/versions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A unit in the copy of a version. */
static void *unit_of(const train_versions_t *versions, int version, int unit) {
  const train_layout_t *layout = versions->layout;
  size_t copy = (size_t)(version % versions->copies);
  return train_dtype_at(versions->dtype, versions->memory,
                        copy * layout->parameter_count + layout->units[unit].offset);
}

/* ---- the provider ---- */

static coll_status_t acquire(void *context, int unit, int next, const void **parameters) {
  const train_versions_t *versions = context;
  if (versions->used == versions->newest) {
    return versions->inner.acquire(versions->inner.context, unit, next, parameters);
  }
  *parameters = unit_of(versions, versions->used, unit);
  return COLL_OK;
}

static void release(void *context, int unit) {
  const train_versions_t *versions = context;
  if (versions->used == versions->newest) versions->inner.release(versions->inner.context, unit);
}

static coll_status_t open_gradients(void *context, int unit, float **gradients, bool *overwrite) {
  const train_versions_t *versions = context;
  return versions->inner.open_gradients(versions->inner.context, unit, gradients, overwrite);
}

static coll_status_t close_gradients(void *context, int unit) {
  const train_versions_t *versions = context;
  return versions->inner.close_gradients(versions->inner.context, unit);
}

train_param_provider_t train_versions_provider(train_versions_t *versions) {
  if (versions->copies == 0) return versions->inner;
  return (train_param_provider_t){.context = versions,
                                  .acquire = acquire,
                                  .release = release,
                                  .open_gradients = open_gradients,
                                  .close_gradients = close_gradients};
}

/* ---- versions ---- */

size_t train_versions_bytes(const train_layout_t *layout, train_dtype_t dtype, int copies) {
  return (size_t)copies * layout->parameter_count * train_dtype_bytes(dtype);
}

coll_status_t train_versions_init(const train_layout_t *layout, train_param_provider_t inner,
                                  train_dtype_t dtype, int copies, train_versions_t *versions) {
  *versions = (train_versions_t){.inner = inner, .layout = layout, .dtype = dtype};
  if (copies == 0) return COLL_OK;
  COLL_TRY(base_alloc(train_versions_bytes(layout, dtype, copies), 1,
                      "older versions of the weights", &versions->memory));
  versions->copies = copies;
  return COLL_OK;
}

void train_versions_free(train_versions_t *versions) {
  free(versions->memory);
}

void train_versions_begin(train_versions_t *versions) {
  versions->newest = versions->used = 0;
}

coll_status_t train_versions_keep(train_versions_t *versions) {
  const train_layout_t *layout = versions->layout;
  const train_param_provider_t *inner = &versions->inner;
  for (int unit = 0; unit < layout->unit_count && versions->copies > 0; unit++) {
    const void *weights;
    COLL_TRY(inner->acquire(inner->context, unit, -1, &weights));
    memcpy(unit_of(versions, versions->newest, unit), weights,
           layout->units[unit].count * train_dtype_bytes(versions->dtype));
    inner->release(inner->context, unit);
  }
  versions->newest++;
  return COLL_OK;
}

void train_versions_use(train_versions_t *versions, int version) {
  assert(version <= versions->newest && version >= versions->newest - versions->copies);
  versions->used = version;
}
