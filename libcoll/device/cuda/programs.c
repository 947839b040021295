/* Programs of plans, for the kernel in the GPU's memory. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

/* ---- finding ---------------------------------------------------------------------------------*/

static size_t slot_of_plan(const plan_t *plan) {
  return (size_t)(gpu_mix(0, (uintptr_t)plan) % CUDA_END_PROGRAM_SLOTS);
}

static size_t slot_of_group(const gpu_program_t *program) {
  uint64_t digest = program->bytes, word;
  const char *bytes = (const char *)program;
  for (size_t at = 0; at + sizeof word <= program->bytes; at += sizeof word) {
    memcpy(&word, bytes + at, sizeof word);
    digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 32;
  }
  return (size_t)(digest % CUDA_END_PROGRAM_SLOTS);
}

const cuda_program_t *cuda_end_find_group(const cuda_end_t *end, const gpu_program_t *program) {
  const cuda_program_t *known = end->slots[slot_of_group(program)];
  for (; known != NULL; known = known->next) {
    if (known->plan == NULL && known->bound->bytes == program->bytes &&
        memcmp(known->bound, program, program->bytes) == 0) {
      return known;
    }
  }
  return NULL;
}

/* ---- adding ----------------------------------------------------------------------------------*/

coll_status_t cuda_end_add_program(cuda_end_t *end, const plan_t *plan, gpu_program_t *bound,
                                   cuda_program_t **program) {
  cuda_program_t *made;
  cuda_ptr_t address = 0;
  COLL_TRY(base_grow((void **)&end->programs, &end->program_capacity, end->program_count + 1,
                     sizeof *end->programs, "a GPU's programs"));
  if (end->executor->uploads) COLL_TRY(cuda_end_upload(end, bound, bound->bytes, &address));
  COLL_TRY(base_alloc(1, sizeof *made, "a GPU's program", (void **)&made));
  *made = (cuda_program_t){
      .plan = plan, .bound = bound, .there = (const gpu_program_t *)(uintptr_t)address};
  cuda_program_t **slot = &end->slots[plan != NULL ? slot_of_plan(plan) : slot_of_group(bound)];
  made->next = *slot;
  *slot = made;
  end->programs[end->program_count++] = made;
  end->group_count += plan == NULL ? 1 : 0;
  *program = made;
  return COLL_OK;
}

void cuda_end_programs_free(cuda_end_t *end) {
  for (size_t i = 0; i < end->program_count; i++) {
    free(end->programs[i]->bound);
    free(end->programs[i]);
  }
  free(end->programs);
  end->programs = NULL;
  end->program_count = end->program_capacity = end->group_count = 0;
  memset(end->slots, 0, sizeof end->slots);
}

static coll_status_t make(cuda_end_t *end, const plan_t *plan, cuda_program_t **program) {
  gpu_program_t *bound = NULL;
  cuda_capture_mode_t mode;
  COLL_TRY(gpu_bind_program(plan, end->rank, &bound));
  coll_status_t status = end->executor->check(end, bound);
  if (status == COLL_OK) {
    status = cuda_end_enter(end, &mode);
    if (status == COLL_OK) {
      status = cuda_end_add_program(end, plan, bound, program);
      cuda_end_leave(end, mode);
    }
  }
  if (status != COLL_OK) free(bound);
  return status;
}

coll_status_t cuda_end_program(cuda_end_t *end, const plan_t *plan,
                               const cuda_program_t **program) {
  cuda_program_t *made = end->slots[slot_of_plan(plan)];
  while (made != NULL && made->plan != plan) made = made->next;
  if (made != NULL) {
    *program = made;
    return COLL_OK;
  }
  COLL_TRY(make(end, plan, &made));
  *program = made;
  return COLL_OK;
}
