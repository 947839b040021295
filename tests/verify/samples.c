/* Reads plans from text with one line changed. */
#include "samples.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "plan/text.h"

plan_t *sample_plan(const char *text, const char *line, const char *replacement) {
  const char *found = line != NULL ? strstr(text, line) : text;
  cr_assert_not_null(found, "the sample has no '%s'", line);
  size_t before = (size_t)(found - text), cut = line != NULL ? strlen(line) : 0;
  char *changed = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&changed, &bytes);
  fprintf(stream, "%.*s%s%s", (int)before, text, line != NULL ? replacement : "", found + cut);
  fclose(stream);
  stream = fmemopen(changed, bytes, "r");
  plan_t *plan = NULL;
  coll_status_t status = plan_text_read(stream, "sample", &plan);
  fclose(stream);
  free(changed);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  return plan;
}
