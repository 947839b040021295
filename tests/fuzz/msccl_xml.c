/*
 * Schedules in MSCCL's XML. What is imported is verified if it is small, and exported; what is
 * exported must be accepted again.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "proof.h"
#include "tools/collplan/msccl.h"

static coll_status_t import(const void *text, size_t bytes, plan_t **plan) {
  msccl_file_t file;
  msccl_lines_t lines = {0};
  FILE *in = fuzz_open(text, bytes);
  coll_status_t status = msccl_parse(in, "input", NULL, &file);
  if (status == COLL_OK) status = msccl_import(&file, plan, &lines);
  msccl_lines_free(&lines);
  msccl_file_free(&file);
  fclose(in);
  return status;
}

static void export_and_import(const plan_t *plan) {
  fuzz_text_t text;
  plan_t *copy;
  fuzz_text_begin(&text);
  coll_status_t status = msccl_export(plan, text.out);
  fuzz_text_end(&text);
  if (status == COLL_OK) {
    fuzz_require(import(text.text, text.bytes, &copy) == COLL_OK,
                 "an exported schedule is accepted");
    plan_free(copy);
  }
  free(text.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  plan_t *plan;
  if (import(data, bytes, &plan) != COLL_OK) return 0;
  fuzz_proof(plan);
  export_and_import(plan);
  plan_free(plan);
  return 0;
}
