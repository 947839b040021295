/*
 * Descriptions of layouts: a number of ranks, a space, and the description. What is accepted is
 * printed and a part of it selected.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "topo/layout.h"

#define RANKS_MAX 5000
#define TEXT_MAX 65536

static void use(const topo_layout_t *layout) {
  const int32_t ranks[] = {layout->size - 1, 0};
  int32_t count = layout->size > 1 ? 2 : 1;
  topo_layout_t *part;
  fuzz_text_t table;
  (void)topo_layout_digest(layout);
  fuzz_text_begin(&table);
  topo_layout_print(layout, table.out);
  fuzz_text_end(&table);
  free(table.text);
  fuzz_require(topo_layout_select(layout, ranks, count, &part) == COLL_OK,
               "ranks can be selected from a layout");
  topo_layout_free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char text[TEXT_MAX + 1], *description;
  topo_layout_t *layout;
  if (bytes > TEXT_MAX) bytes = TEXT_MAX;
  if (bytes > 0) memcpy(text, data, bytes);
  text[bytes] = '\0';
  long size = strtol(text, &description, 10);
  if (size < 1 || size > RANKS_MAX || *description != ' ') return 0;
  if (topo_layout_parse(description + 1, (int32_t)size, &layout) != COLL_OK) return 0;
  fuzz_require(layout->size == size, "a layout has as many ranks as asked for");
  use(layout);
  topo_layout_free(layout);
  return 0;
}
