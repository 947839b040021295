/*
 * Layouts from short descriptions, and as a table for people.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "topo/layout.h"

/* ---- reading --------------------------------------------------------------------------------*/

enum { WORD_BYTES = 64 };

typedef struct parser {
  const char *text; /* the whole description */
  topo_layout_t *layout;
  int32_t *group_of; /* [size]: of the level that is read */
} parser_t;

static coll_status_t refuse(const parser_t *parser, const char *why) {
  return base_fail(COLL_ERROR_INVALID,
                   "layout %s: %s; give hosts:4x2 (four hosts of two ranks), hosts:3+5, "
                   "hosts:2x4/numa:2, grid:4x4 or mesh:3x5",
                   parser->text, why);
}

static coll_status_t refuse_size(const parser_t *parser, int64_t ranks) {
  return base_fail(COLL_ERROR_INVALID, "layout %s: it has %lld ranks, but there are %d",
                   parser->text, (long long)ranks, (int)parser->layout->size);
}

/* Reads numbers separated by `separator` from the whole word; their count, or 0 if it is wrong. */
static int read_numbers(const char *word, char separator, int32_t numbers[], int most) {
  int count = 0;
  for (const char *at = word;;) {
    const char *end = strchr(at, separator);
    size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
    char digits[16];
    int64_t number;
    if (count == most || length == 0 || length >= sizeof digits) return 0;
    memcpy(digits, at, length);
    digits[length] = '\0';
    if (!base_text_integer(digits, 1, INT32_MAX, &number)) return 0;
    numbers[count++] = (int32_t)number;
    if (end == NULL) return count;
    at = end + 1;
  }
}

static coll_status_t add_level(const parser_t *parser, topo_kind_t kind) {
  return topo_layout_add_level(parser->layout, kind, parser->group_of);
}

/* "4x2" or "3+5": hosts of consecutive ranks. */
static coll_status_t read_hosts(const parser_t *parser, const char *word) {
  int32_t pair[2], size = parser->layout->size, rank = 0;
  if (strchr(word, '+') == NULL) {
    if (read_numbers(word, 'x', pair, 2) != 2) return refuse(parser, "give hosts as 4x2 or 3+5");
    if ((int64_t)pair[0] * pair[1] != size) {
      return refuse_size(parser, (int64_t)pair[0] * pair[1]);
    }
    for (; rank < size; rank++) parser->group_of[rank] = rank / pair[1];
  } else {
    int32_t *ranks_of;
    COLL_TRY(base_alloc((size_t)size, sizeof *ranks_of, "hosts", (void **)&ranks_of));
    int hosts = read_numbers(word, '+', ranks_of, size);
    int64_t ranks = 0;
    for (int host = 0; host < hosts; host++) ranks += ranks_of[host];
    for (int host = 0; host < hosts && ranks == size; host++) {
      for (int32_t i = 0; i < ranks_of[host]; i++) parser->group_of[rank++] = host;
    }
    free(ranks_of);
    if (hosts == 0) return refuse(parser, "give hosts as 4x2 or 3+5, none without ranks");
    if (ranks != size) return refuse_size(parser, ranks);
  }
  COLL_TRY(add_level(parser, TOPO_HOST));
  return topo_layout_set_domains(parser->layout, parser->group_of);
}

/* Divides each group of the last level into `parts`, the first ones with one rank more. */
static coll_status_t divide_groups(const parser_t *parser, topo_kind_t kind, int32_t parts) {
  topo_layout_t *layout = parser->layout;
  const int32_t *above = layout->level[layout->levels - 1].group_of;
  int32_t next = 0;
  for (int32_t first = 0; first < layout->size;) {
    int32_t end = first + 1;
    while (end < layout->size && above[end] == above[first]) end++;
    int32_t ranks = end - first, groups = parts < ranks ? parts : ranks;
    for (int32_t i = 0, group = 0, left = 0; i < ranks; i++) {
      if (left == 0) left = ranks / groups + (group++ < ranks % groups ? 1 : 0);
      parser->group_of[first + i] = next + group - 1;
      left--;
    }
    next += groups;
    first = end;
  }
  return add_level(parser, kind);
}

static coll_status_t read_parts(const parser_t *parser, topo_kind_t kind, const char *word) {
  int64_t parts;
  if (!base_text_integer(word, 1, INT32_MAX, &parts)) {
    return refuse(parser, "the number of groups of a host is wrong");
  }
  return divide_groups(parser, kind, (int32_t)parts);
}

static coll_status_t read_grid(const parser_t *parser, const char *word, bool wraps) {
  int32_t extents[TOPO_GRID_DIMS_MAX], size = parser->layout->size;
  int dims = read_numbers(word, 'x', extents, TOPO_GRID_DIMS_MAX);
  if (dims == 0) return refuse(parser, "give up to three extents as 4x4 or 2x3x4");
  int64_t ranks = 1;
  for (int i = 0; i < dims && ranks <= size; i++) ranks *= extents[i];
  if (ranks != size) return refuse_size(parser, ranks);
  for (int32_t rank = 0; rank < size; rank++) parser->group_of[rank] = rank;
  COLL_TRY(add_level(parser, TOPO_HOST));
  COLL_TRY(topo_layout_set_domains(parser->layout, parser->group_of));
  return topo_layout_set_grid(parser->layout, dims, extents, wraps);
}

static coll_status_t read_level(const parser_t *parser, const char *name, const char *word) {
  bool is_first = parser->layout->levels == 0;
  topo_kind_t kind;
  if (is_first && strcmp(name, "hosts") == 0) return read_hosts(parser, word);
  if (is_first && strcmp(name, "grid") == 0) return read_grid(parser, word, true);
  if (is_first && strcmp(name, "mesh") == 0) return read_grid(parser, word, false);
  if (is_first) return refuse(parser, "it must begin with hosts:, grid: or mesh:");
  if (parser->layout->dims > 0) return refuse(parser, "nothing may follow a grid");
  if (!topo_kind_of(name, &kind) || (kind != TOPO_PACKAGE && kind != TOPO_NUMA)) {
    return refuse(parser, "the parts of a host are package: or numa:");
  }
  return read_parts(parser, kind, word);
}

static coll_status_t read_levels(const parser_t *parser) {
  for (const char *at = parser->text;;) {
    char level[WORD_BYTES];
    size_t length = strcspn(at, "/");
    if (length >= sizeof level) return refuse(parser, "a part of it is too long");
    memcpy(level, at, length);
    level[length] = '\0';
    char *colon = strchr(level, ':');
    if (colon == NULL) return refuse(parser, "a colon is missing");
    *colon = '\0';
    COLL_TRY(read_level(parser, level, colon + 1));
    if (at[length] == '\0') return COLL_OK;
    at += length + 1;
  }
}

coll_status_t topo_layout_parse(const char *text, int32_t size, topo_layout_t **layout) {
  parser_t parser = {.text = text};
  COLL_TRY(topo_layout_create(size, &parser.layout));
  coll_status_t status =
      base_alloc((size_t)size, sizeof *parser.group_of, "a layout", (void **)&parser.group_of);
  if (status == COLL_OK) status = read_levels(&parser);
  free(parser.group_of);
  if (status != COLL_OK) {
    topo_layout_free(parser.layout);
    return status;
  }
  *layout = parser.layout;
  return COLL_OK;
}

/* ---- printing -------------------------------------------------------------------------------*/

void topo_layout_print(const topo_layout_t *layout, FILE *out) {
  fprintf(out, "%-6s", "rank");
  for (int32_t l = 0; l < layout->levels; l++) {
    fprintf(out, " %8s", topo_kind_name(layout->level[l].kind));
  }
  fprintf(out, " %8s%s\n", "domain", layout->dims > 0 ? "  coordinates" : "");
  for (int32_t rank = 0; rank < layout->size; rank++) {
    int32_t below = layout->size;
    fprintf(out, "%-6d", (int)rank);
    for (int32_t l = 0; l < layout->levels; l++) {
      fprintf(out, " %8d", (int)layout->level[l].group_of[rank]);
    }
    fprintf(out, " %8d", (int)layout->domain_of[rank]);
    for (int32_t d = 0; d < layout->dims; d++) {
      below /= layout->extents[d];
      fprintf(out, "%s%d", d == 0 ? "  " : ",", (int)(rank / below % layout->extents[d]));
    }
    fputc('\n', out);
  }
}
