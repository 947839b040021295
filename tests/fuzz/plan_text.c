/*
 * The text form of plans. What is accepted is written and read again, and verified if it is small.
 */
#include "plan/text.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "proof.h"

static coll_status_t read_plan(const void *text, size_t bytes, plan_t **plan) {
  FILE *in = fuzz_open(text, bytes);
  coll_status_t status = plan_text_read(in, "input", plan);
  fclose(in);
  return status;
}

static void write_plan(const plan_t *plan, fuzz_text_t *text) {
  fuzz_text_begin(text);
  fuzz_require(plan_text_write(plan, text->out) == COLL_OK, "an accepted plan can be written");
  fuzz_text_end(text);
}

static void write_again(const plan_t *plan) {
  fuzz_text_t first, second;
  plan_t *copy;
  write_plan(plan, &first);
  fuzz_require(read_plan(first.text, first.bytes, &copy) == COLL_OK, "a written plan is accepted");
  write_plan(copy, &second);
  fuzz_require(first.bytes == second.bytes && memcmp(first.text, second.text, first.bytes) == 0,
               "equal plans give equal bytes");
  plan_free(copy);
  free(first.text);
  free(second.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  plan_t *plan;
  if (read_plan(data, bytes, &plan) != COLL_OK) return 0;
  write_again(plan);
  fuzz_proof(plan);
  plan_free(plan);
  return 0;
}
