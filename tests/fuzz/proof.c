/* The time of a proof grows with steps, chunks and lanes; all of them are bounded. */
#include "proof.h"

#include "fuzz.h"
#include "verify/verify.h"

#define RANKS_MAX 16
#define LANES_MAX 8
#define PARTS_MAX 64
#define SCRATCH_MAX 256
#define CHUNKS_MAX 20000 /* in the spans of all steps, at least one for each */

static size_t span_chunks(const plan_program_t *program, const plan_step_t *step) {
  int32_t count = 0;
  switch (step->kind) {
    case PLAN_COPY: count = step->copy.dst.count; break;
    case PLAN_REDUCE:
      count = step->reduce.source_count * program->sources[step->reduce.first_source].count;
      break;
    case PLAN_SEND: count = step->send.src.count; break;
    case PLAN_RECV: count = step->recv.dst.count; break;
    default: break;
  }
  return count > 0 ? (size_t)count : 1;
}

static size_t chunks_of(const plan_t *plan) {
  size_t chunks = 0;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    const plan_program_t *program = &plan->programs[rank];
    for (int32_t i = 0; i < plan->lanes; i++) {
      const plan_lane_t *lane = &program->lanes[i];
      for (size_t step = 0; step < lane->count; step++) {
        chunks += span_chunks(program, &lane->steps[step]);
      }
    }
  }
  return chunks;
}

void fuzz_proof(const plan_t *plan) {
  verify_report_t report;
  bool is_small = plan->shape.size <= RANKS_MAX && plan->lanes <= LANES_MAX &&
                  plan->parts <= PARTS_MAX && plan->scratch_chunks <= SCRATCH_MAX;
  if (!is_small || chunks_of(plan) > CHUNKS_MAX) return;
  fuzz_require(verify_plan(plan, &report) == COLL_OK, "the verifier comes to a verdict");
  fuzz_require(report.verdict != VERIFY_MALFORMED, "an accepted plan is well-formed");
}
