/*
 * Several operations in one call: copies, and writes of and waits for values. All of them are
 * checked before any is queued.
 */
#include <stdlib.h>

#include "gpu/standin/graph.h"

#define LEGACY_HANDLE ((cuda_stream_t)1)
#define VALUES_MAX 255

static int of_copies, of_values;

int standin_batches(bool copies) {
  standin_lock();
  int count = copies ? of_copies : of_values;
  standin_unlock();
  return count;
}

/* ---- copies ----------------------------------------------------------------------------------*/

static bool is_hint(const cuda_location_t *hint) {
  if (hint->type != CUDA_LOCATION_DEVICE) return hint->type == 0;
  return hint->id >= 0 && hint->id < standin.device_count;
}

/* Whether the attributes are of all copies. */
static bool are_attributes(const cuda_copy_attributes_t *attributes, const size_t *begins,
                           size_t attribute_count, size_t count) {
  if (attributes == NULL || begins == NULL || attribute_count == 0 || begins[0] != 0) return false;
  for (size_t i = 0; i < attribute_count; i++) {
    const cuda_copy_attributes_t *a = &attributes[i];
    bool is_next = i == 0 || begins[i] > begins[i - 1];
    if (!is_next || begins[i] >= count || a->order < CUDA_SOURCE_IN_STREAM ||
        a->order > CUDA_SOURCE_ANY_TIME || a->flags > 1 || !is_hint(&a->src_hint) ||
        !is_hint(&a->dst_hint)) {
      return false;
    }
  }
  return true;
}

static bool overlap(cuda_ptr_t a, size_t a_bytes, cuda_ptr_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/* Copies of a batch are carried out in any order, so they must not depend on each other. */
static void check_order(const cuda_ptr_t *dsts, const cuda_ptr_t *srcs, const size_t *bytes,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < count; k++) {
      if (overlap(dsts[i], bytes[i], srcs[k], bytes[k]) ||
          (i != k && overlap(dsts[i], bytes[i], dsts[k], bytes[k]))) {
        standin_misuse("copies %zu and %zu of a batch depend on each other", i, k);
        return;
      }
    }
  }
}

/* From the last to the first, as no order is promised. operations: [count]. */
static cuda_result_t queue_copies(cuda_stream_t stream, operation_t operations[], cuda_ptr_t *dsts,
                                  cuda_ptr_t *srcs, const size_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    operations[i] =
        (operation_t){.kind = OPERATION_COPY, .dst = dsts[i], .src = srcs[i], .bytes = bytes[i]};
    cuda_result_t result = standin_operation_check(stream, &operations[i], 1);
    if (bytes[i] == 0) result = CUDA_RESULT_INVALID_VALUE;
    if (result != CUDA_RESULT_OK) return result;
  }
  check_order(dsts, srcs, bytes, count);
  of_copies += count > 1;
  for (size_t i = count; i > 0; i--) {
    cuda_result_t result = standin_queue(stream, &operations[i - 1]);
    if (result != CUDA_RESULT_OK) return result;
  }
  return CUDA_RESULT_OK;
}

cuda_result_t cuMemcpyBatchAsync(cuda_ptr_t *dsts, cuda_ptr_t *srcs, size_t *bytes, size_t count,
                                 cuda_copy_attributes_t *attributes, size_t *begins,
                                 size_t attribute_count, size_t *failed, cuda_stream_t handle) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (dsts == NULL || srcs == NULL || bytes == NULL || count == 0 || failed == NULL ||
      handle == NULL || handle == LEGACY_HANDLE ||
      !are_attributes(attributes, begins, attribute_count, count)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  *failed = SIZE_MAX;
  cuda_stream_t stream = standin_stream(context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  if (stream->graph != NULL) {
    stream->graph->is_invalid = true;
    return standin_leave(CUDA_RESULT_CAPTURE_UNSUPPORTED);
  }
  for (size_t i = 0; i < attribute_count; i++) {
    if (attributes[i].order == CUDA_SOURCE_DURING_CALL) {
      return standin_leave(CUDA_RESULT_NOT_SUPPORTED); /* of this stand-in */
    }
  }
  operation_t *operations = calloc(count, sizeof *operations);
  if (operations == NULL) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  result = queue_copies(stream, operations, dsts, srcs, bytes, count);
  free(operations);
  return standin_leave(result);
}

/* ---- values ----------------------------------------------------------------------------------*/

/* Translates the operation. */
static cuda_result_t find_operation(const cuda_value_operation_t *value, operation_t *o) {
  static const struct {
    operation_kind_t kind;
    size_t bytes;
    unsigned flags_max;
  } kinds[] = {[CUDA_VALUE_WAIT32] = {OPERATION_WAIT32, 4, CUDA_WAIT_NOR},
               [CUDA_VALUE_WRITE32] = {OPERATION_WRITE32, 4, 0},
               [CUDA_VALUE_WAIT64] = {OPERATION_WAIT64, 8, CUDA_WAIT_NOR},
               [CUDA_VALUE_WRITE64] = {OPERATION_WRITE64, 8, 0}};
  size_t kind = value->of_memory.kind;
  if (kind >= sizeof kinds / sizeof kinds[0] || kinds[kind].bytes == 0) {
    return CUDA_RESULT_NOT_SUPPORTED;
  }
  if (value->of_memory.flags > kinds[kind].flags_max) return CUDA_RESULT_INVALID_VALUE;
  *o = (operation_t){.kind = kinds[kind].kind,
                     .dst = value->of_memory.address,
                     .bytes = kinds[kind].bytes,
                     .value = value->of_memory.value,
                     .flags = value->of_memory.flags};
  if (o->bytes == 4) o->value = (uint32_t)o->value;
  return CUDA_RESULT_OK;
}

cuda_result_t cuStreamBatchMemOp_v2(cuda_stream_t handle, unsigned count,
                                    cuda_value_operation_t *values, unsigned flags) {
  operation_t operations[VALUES_MAX];
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (count == 0 || count > VALUES_MAX || values == NULL || flags != 0) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  cuda_stream_t stream = standin_stream(context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  for (unsigned i = 0; i < count && result == CUDA_RESULT_OK; i++) {
    result = find_operation(&values[i], &operations[i]);
    if (result != CUDA_RESULT_OK) break;
    result = standin_operation_check(stream, &operations[i], operations[i].bytes);
  }
  if (result != CUDA_RESULT_OK) return standin_leave(result);
  of_values += count > 1;
  for (unsigned i = 0; i < count && result == CUDA_RESULT_OK; i++) {
    result = standin_queue(stream, &operations[i]);
  }
  return standin_leave(result);
}
