/* Which engine serves, and the launches that it carries out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

/* ---- the choice ------------------------------------------------------------------------------*/

static const char *const engine_words[] = {"auto", "kernel", "copy", "staged"};

coll_status_t cuda_end_check_agreement(int size, const cuda_record_t records[]) {
  for (int rank = 1; rank < size; rank++) {
    if (records[rank].protocols != records[0].protocols) {
      return base_fail(COLL_ERROR_INVALID,
                       "ranks 0 and %d have different COLL_CUDA_PROTOCOLS: it must be the same on "
                       "all ranks",
                       rank);
    }
    if (records[rank].engine == records[0].engine) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "rank 0 has COLL_CUDA_ENGINE=%s, rank %d has %s: it must be the same on all "
                     "ranks",
                     engine_words[records[0].engine], rank, engine_words[records[rank].engine]);
  }
  return COLL_OK;
}

static bool shares_gpu(const cuda_record_t *a, const cuda_record_t *b) {
  return memcmp(&a->gpu, &b->gpu, sizeof a->gpu) == 0;
}

/* Finds two processes that share a GPU, whose kernels it never runs at once. */
static bool find_sharing(int size, const cuda_record_t records[], int pair[2]) {
  for (int a = 0; a < size; a++) {
    for (int b = a + 1; b < size; b++) {
      const cuda_record_t *one = &records[a], *other = &records[b];
      if (one->process == other->process || !shares_gpu(one, other)) continue;
      if (one->mps != 0 && other->mps != 0) continue;
      pair[0] = a;
      pair[1] = b;
      return true;
    }
  }
  return false;
}

static int count_gpus(int size, const cuda_record_t records[]) {
  int count = 0;
  for (int rank = 0; rank < size; rank++) {
    int before = 0;
    while (before < rank && !shares_gpu(&records[before], &records[rank])) before++;
    count += before == rank;
  }
  return count;
}

coll_status_t cuda_end_choose(cuda_end_t *end, const cuda_record_t records[]) {
  int pair[2];
  cuda_engine_t asked = (cuda_engine_t)records[0].engine;
  COLL_TRY(cuda_end_check_agreement(end->size, records));
  bool shares = find_sharing(end->size, records, pair);
  if (shares && asked == CUDA_ENGINE_KERNEL) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "ranks %d and %d are processes that share a GPU: it runs the kernels of one "
                     "process at a time, so they could wait for each other forever; unset "
                     "COLL_CUDA_ENGINE or set it to copy, give each process a GPU of its own, or "
                     "make both ranks threads of one process",
                     pair[0], pair[1]);
  }
  if (shares) {
    snprintf(end->reason, sizeof end->reason, "ranks %d and %d are processes that share a GPU",
             pair[0], pair[1]);
  } else {
    snprintf(end->reason, sizeof end->reason, "%s",
             asked == CUDA_ENGINE_AUTO ? "no two processes share a GPU without MPS"
                                       : "COLL_CUDA_ENGINE asks for it");
  }
  end->parallel = shares ? count_gpus(end->size, records) : end->size;
  end->engine = shares || asked == CUDA_ENGINE_COPY ? CUDA_ENGINE_COPY : CUDA_ENGINE_KERNEL;
  return COLL_OK;
}

cuda_engine_t cuda_end_engine(const cuda_end_t *end, const char **reason) {
  *reason = end->reason;
  return end->engine;
}

int cuda_end_parallel(const cuda_end_t *end) {
  return end->parallel;
}

/* ---- launches --------------------------------------------------------------------------------*/

coll_status_t cuda_end_check_stream(cuda_end_t *end, cuda_stream_t stream) {
  cuda_capture_status_t capture = CUDA_CAPTURE_NONE;
  cuda_capture_mode_t mode;
  if (end->executor->captures) return COLL_OK;
  COLL_TRY(cuda_end_enter(end, &mode));
  coll_status_t status = CUDA_END_CALL(end, cuStreamIsCapturing, stream, &capture);
  cuda_end_leave(end, mode);
  if (status != COLL_OK || capture == CUDA_CAPTURE_NONE) return status;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "this call cannot be captured into a graph, as the copy engines carry it out "
                   "(%s); with COLL_CUDA_ENGINE=staged it can be, and with "
                   "COLL_CUDA_ENGINE=kernel, where ranks are threads or have a GPU each",
                   end->reason);
}

coll_status_t cuda_end_launch(cuda_end_t *end, const cuda_program_t *program,
                              const cuda_request_t *request, cuda_stream_t stream) {
  cuda_capture_mode_t mode;
  COLL_TRY(cuda_end_enter(end, &mode));
  coll_status_t status = end->executor->launch(end, program, request, stream);
  cuda_end_leave(end, mode);
  return status;
}

static coll_status_t bind_group(const cuda_end_t *end, const gpu_transfer_t transfers[], int count,
                                cuda_end_group_t *group) {
  size_t *offsets;
  *group = (cuda_end_group_t){.transfers = count};
  for (int i = 0; i < count; i++) {
    if (transfers[i].bytes > group->largest) group->largest = transfers[i].bytes;
  }
  return gpu_bind_exchange(end->rank, end->size, transfers, count, &group->program, &group->counts,
                           &offsets);
}

coll_status_t cuda_end_launch_exchange(cuda_end_t *end, const gpu_transfer_t transfers[], int count,
                                       cuda_stream_t stream) {
  cuda_capture_mode_t mode;
  cuda_end_group_t group;
  if (count == 0) return COLL_OK;
  COLL_TRY(bind_group(end, transfers, count, &group));
  coll_status_t status = cuda_end_enter(end, &mode);
  if (status == COLL_OK) {
    status = end->executor->launch_group(end, &group, stream);
    cuda_end_leave(end, mode);
  }
  free(group.program);
  free(group.counts);
  return status;
}
