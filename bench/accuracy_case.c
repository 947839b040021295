/* Arrays of bench/accuracy, in memory and in files. */
#include "bench/accuracy_case.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"

/* ---- all cases ---- */

static void path_of(const accuracy_t *all, const char *name, char path[1024]) {
  snprintf(path, 1024, "%s/%s", all->folder, name);
}

coll_status_t accuracy_open(const char *folder, const train_ops_sizes_t *sizes, uint64_t seed,
                            accuracy_t *all) {
  char path[1024];
  void *memory;
  *all = (accuracy_t){.ops = &train_ops_host, .seed = seed, .folder = folder};
  all->exec.dtype = sizes->dtype;
  all->cases = json_array();
  path_of(all, "data.bin", path);
  all->data = fopen(path, "wb");
  if (all->data == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create %s", path);
  COLL_TRY(base_alloc(all->ops->scratch_floats(sizes), sizeof(float), "scratch", &memory));
  all->exec.scratch = memory;
  COLL_TRY(train_pool_create(sizes->threads, &all->exec.pool));
  return train_gemm_create(all->exec.pool, &all->exec.gemm);
}

coll_status_t accuracy_finish(accuracy_t *all) {
  char path[1024];
  path_of(all, "index.json", path);
  json_t *index =
      json_pack("{s:s, s:O}", "dtype", train_dtype_name(all->exec.dtype), "cases", all->cases);
  bool written = fflush(all->data) == 0 && json_dump_file(index, path, JSON_COMPACT) == 0;
  json_decref(index);
  return written ? COLL_OK : base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", path);
}

static void free_arrays(accuracy_t *all) {
  for (int i = 0; i < all->array_count; i++) free(all->arrays[i].data);
  all->array_count = 0;
}

void accuracy_close(accuracy_t *all) {
  free_arrays(all);
  json_decref(all->cases);
  if (all->data != NULL) fclose(all->data);
  train_gemm_destroy(all->exec.gemm);
  train_pool_destroy(all->exec.pool);
  free(all->exec.scratch);
}

uint64_t accuracy_draw(accuracy_t *all, uint64_t limit) {
  return train_random_below(all->seed, TRAIN_RANDOM_SAMPLING, all->draws++, limit);
}

/* ---- a case ---- */

void accuracy_case(accuracy_t *all, const char *op) {
  all->now = json_pack("{s:s, s:{}, s:{}}", "op", op, "sizes", "arrays");
  all->status = COLL_OK;
  json_array_append_new(all->cases, all->now);
}

void accuracy_size(accuracy_t *all, const char *name, int value) {
  json_object_set_new(json_object_get(all->now, "sizes"), name, json_integer(value));
}

static void *add_array(accuracy_t *all, const accuracy_array_t *like, size_t element_bytes) {
  assert(all->array_count < ACCURACY_ARRAYS_MAX);
  accuracy_array_t *array = &all->arrays[all->array_count];
  size_t count = (size_t)like->rows * (size_t)like->columns;
  *array = *like;
  array->bytes = count * element_bytes;
  if (all->status == COLL_OK)
    all->status = base_alloc(count, element_bytes, "an array", &array->data);
  if (all->status != COLL_OK) return NULL;
  memset(array->data, 0xff, array->bytes);
  all->array_count++;
  return array->data;
}

const void *accuracy_input(accuracy_t *all, const char *name, int rows, int columns,
                           double deviation) {
  const accuracy_array_t like = {name, train_dtype_name(all->exec.dtype), rows, columns, 0, false,
                                 NULL};
  size_t count = (size_t)rows * (size_t)columns;
  float *wide = accuracy_scratch(all, count);
  void *values = add_array(all, &like, train_dtype_bytes(all->exec.dtype));
  if (values == NULL) return NULL;
  train_random_normals(all->seed, TRAIN_RANDOM_WEIGHTS, all->draws, count, deviation, wide);
  all->draws += count;
  train_dtype_narrow(all->exec.dtype, wide, count, values);
  return values;
}

const int32_t *accuracy_indices(accuracy_t *all, const char *name, int rows, int limit) {
  const accuracy_array_t like = {name, "int32", rows, 1, 0, false, NULL};
  int32_t *values = add_array(all, &like, sizeof *values);
  for (int i = 0; i < rows && values != NULL; i++) {
    values[i] = (int32_t)accuracy_draw(all, (uint64_t)limit);
  }
  return values;
}

void *accuracy_output(accuracy_t *all, const char *name, int rows, int columns) {
  const accuracy_array_t like = {name, train_dtype_name(all->exec.dtype), rows, columns, 0, true,
                                 NULL};
  return add_array(all, &like, train_dtype_bytes(all->exec.dtype));
}

float *accuracy_float_output(accuracy_t *all, const char *name, int rows, int columns) {
  const accuracy_array_t like = {name, train_dtype_name(TRAIN_FLOAT32), rows, columns, 0, true,
                                 NULL};
  return add_array(all, &like, sizeof(float));
}

float *accuracy_scratch(accuracy_t *all, size_t count) {
  const accuracy_array_t like = {NULL, NULL, 1, (int)count, 0, false, NULL};
  return add_array(all, &like, sizeof(float));
}

static coll_status_t write_array(accuracy_t *all, const accuracy_array_t *array) {
  long offset = ftell(all->data);
  if (fwrite(array->data, 1, array->bytes, all->data) != array->bytes) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write to %s/data.bin", all->folder);
  }
  json_object_set_new(
      json_object_get(all->now, "arrays"), array->name,
      json_pack("{s:s, s:[i, i], s:I, s:b}", "dtype", array->dtype, "shape", array->rows,
                array->columns, "offset", (json_int_t)offset, "output", array->output));
  return COLL_OK;
}

coll_status_t accuracy_write(accuracy_t *all) {
  for (int i = 0; i < all->array_count; i++) {
    if (all->arrays[i].name != NULL) COLL_TRY(write_array(all, &all->arrays[i]));
  }
  free_arrays(all);
  return COLL_OK;
}
