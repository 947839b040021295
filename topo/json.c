/*
 * Parses with jansson, which reports lines of malformed text only. The lines of nodes and links,
 * for messages about their contents, are found by a second pass over the text, which is well-formed
 * by then.
 */
#include "topo/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "topo/check.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

typedef struct reader {
  const char *file;
  int32_t *node_lines, *link_lines;
  int32_t grid_line;
  topo_graph_t *graph;
} reader_t;

/* ---- lines --------------------------------------------------------------------------------- */

typedef struct scan {
  int32_t line;
  int depth;
  const char *key; /* the last string directly in the outermost object */
  size_t key_bytes;
  int32_t *lines; /* of the elements of the current array, NULL: not needed */
  size_t count;
  bool expects_element;
} scan_t;

static bool key_is(const scan_t *scan, const char *name) {
  return scan->key_bytes == strlen(name) && memcmp(scan->key, name, scan->key_bytes) == 0;
}

/* The end quote of the string that begins at text[at]. */
static size_t string_end(const char *text, size_t at) {
  for (at++; text[at] != '"'; at++) at += text[at] == '\\';
  return at;
}

static void open_bracket(reader_t *reader, scan_t *scan, char bracket) {
  if (scan->depth++ != 1) return;
  if (bracket == '{' && key_is(scan, "grid")) reader->grid_line = scan->line;
  if (bracket != '[') return;
  scan->lines = key_is(scan, "nodes")   ? reader->node_lines
                : key_is(scan, "links") ? reader->link_lines
                                        : NULL;
  scan->count = 0;
  scan->expects_element = true;
}

static void close_bracket(scan_t *scan) {
  if (--scan->depth == 1) scan->lines = NULL;
}

/* Sets the lines of all elements of the arrays "nodes" and "links". */
static void find_lines(reader_t *reader, const char *text, size_t bytes) {
  scan_t scan = {.line = 1, .key = ""};
  for (size_t at = 0; at < bytes; at++) {
    char c = text[at];
    if (c == '\n') scan.line++;
    if (strchr(" \t\r\n", c) != NULL) continue;
    if (scan.lines != NULL && scan.depth == 2 && c == ',') {
      scan.expects_element = true;
    } else if (scan.lines != NULL && scan.depth == 2 && scan.expects_element && c != ']') {
      scan.lines[scan.count++] = scan.line;
      scan.expects_element = false;
    }
    if (c == '"') {
      size_t end = string_end(text, at);
      if (scan.depth == 1) {
        scan.key = text + at + 1;
        scan.key_bytes = end - at - 1;
      }
      at = end;
    } else if (c == '{' || c == '[') {
      open_bracket(reader, &scan, c);
    } else if (c == '}' || c == ']') {
      close_bracket(&scan);
    }
  }
}

/* ---- fields -------------------------------------------------------------------------------- */

static coll_status_t check_keys(const reader_t *reader, int32_t line, json_t *object,
                                const char *const keys[], size_t count) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    size_t i = 0;
    while (i < count && strcmp(keys[i], key) != 0) i++;
    if (i == count) {
      return base_fail(COLL_ERROR_INVALID, "%s:%d: unknown key '%.40s'; did you mean '%s'?",
                       reader->file, line, key, base_text_nearest(key, keys, count));
    }
  }
  return COLL_OK;
}

/* A text of less than TOPO_NAME_BYTES; *text is "" if it is missing and need not be there. */
static coll_status_t get_text(const reader_t *reader, int32_t line, json_t *object, const char *key,
                              bool needed, const char **text) {
  json_t *value = json_object_get(object, key);
  *text = value == NULL ? "" : json_string_value(value);
  if (*text == NULL || (needed && value == NULL)) {
    return base_fail(COLL_ERROR_INVALID, "%s:%d: \"%s\" is missing or no text; add \"%s\": \"...\"",
                     reader->file, line, key, key);
  }
  if (strlen(*text) < TOPO_NAME_BYTES) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s:%d: \"%s\" has more than %d bytes; shorten it",
                   reader->file, line, key, TOPO_NAME_BYTES - 1);
}

static coll_status_t get_number(const reader_t *reader, int32_t line, json_t *object,
                                const char *key, double *number) {
  json_t *value = json_object_get(object, key);
  *number = json_number_value(value);
  if (json_is_number(value) && *number >= 0.0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s:%d: \"%s\" must be a number that is not negative",
                   reader->file, line, key);
}

static coll_status_t get_count(const reader_t *reader, int32_t line, json_t *object,
                               int32_t *count) {
  json_t *value = json_object_get(object, "count");
  json_int_t given = value != NULL ? json_integer_value(value) : 1;
  *count = (int32_t)given;
  if ((value == NULL || json_is_integer(value)) && given >= 1 && given <= INT32_MAX) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s:%d: \"count\" must be a whole number from 1 up",
                   reader->file, line);
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* Adds the node without its parent, which is found when all names are known. */
static coll_status_t read_node(const reader_t *reader, json_t *object, size_t i) {
  static const char *const keys[] = {"name", "kind", "parent", "model"};
  int32_t line = reader->node_lines[i], node;
  const char *name, *kind_name, *model;
  topo_kind_t kind;
  if (!json_is_object(object)) {
    return base_fail(COLL_ERROR_INVALID, "%s:%d: a node must be an object {\"name\": ...}",
                     reader->file, line);
  }
  COLL_TRY(check_keys(reader, line, object, keys, sizeof keys / sizeof keys[0]));
  COLL_TRY(get_text(reader, line, object, "name", true, &name));
  COLL_TRY(get_text(reader, line, object, "kind", true, &kind_name));
  COLL_TRY(get_text(reader, line, object, "model", false, &model));
  if (!topo_kind_of(kind_name, &kind)) {
    const char *names[TOPO_KIND_COUNT];
    for (int k = 0; k < TOPO_KIND_COUNT; k++) names[k] = topo_kind_name((topo_kind_t)k);
    return base_fail(COLL_ERROR_INVALID,
                     "%s:%d: no kind of node is called '%s'; did you mean '%s'?", reader->file,
                     line, kind_name, base_text_nearest(kind_name, names, TOPO_KIND_COUNT));
  }
  COLL_TRY(topo_graph_add_node(reader->graph, kind, TOPO_NONE, name, &node));
  snprintf(reader->graph->nodes[node].model, TOPO_NAME_BYTES, "%s", model);
  return COLL_OK;
}

/* A parent that comes later is either part of a loop or out of order. */
static coll_status_t late_parent(const reader_t *reader, int32_t node) {
  const topo_node_t *nodes = reader->graph->nodes;
  int32_t at = nodes[node].parent;
  for (size_t i = 0; i < reader->graph->node_count && at != TOPO_NONE && at != node; i++) {
    at = nodes[at].parent;
  }
  return at == TOPO_NONE ? base_fail(COLL_ERROR_INVALID,
                                     "%s:%d: '%s' comes before its parent '%s'; move the parent up",
                                     reader->file, reader->node_lines[node], nodes[node].name,
                                     nodes[nodes[node].parent].name)
                         : base_fail(COLL_ERROR_INVALID,
                                     "%s:%d: the parents of '%s' form a loop; a host has no parent",
                                     reader->file, reader->node_lines[node], nodes[node].name);
}

static coll_status_t find_node(const reader_t *reader, const topo_names_t *names, int32_t line,
                               const char *name, int32_t *node) {
  *node = topo_names_find(reader->graph, names, name);
  if (*node != TOPO_NONE) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s:%d: no node is called '%s'; add it to \"nodes\"",
                   reader->file, line, name);
}

static coll_status_t read_parents(const reader_t *reader, json_t *array,
                                  const topo_names_t *names) {
  topo_node_t *nodes = reader->graph->nodes;
  for (size_t i = 0; i < reader->graph->node_count; i++) {
    const char *parent;
    json_t *object = json_array_get(array, i);
    if (json_object_get(object, "parent") == NULL) continue;
    COLL_TRY(get_text(reader, reader->node_lines[i], object, "parent", true, &parent));
    COLL_TRY(find_node(reader, names, reader->node_lines[i], parent, &nodes[i].parent));
  }
  for (size_t i = 0; i < reader->graph->node_count; i++) {
    if (nodes[i].parent >= (int32_t)i) return late_parent(reader, (int32_t)i);
  }
  return COLL_OK;
}

/* ---- links, grid --------------------------------------------------------------------------- */

static coll_status_t read_link(const reader_t *reader, json_t *object, size_t i,
                               const topo_names_t *names) {
  static const char *const keys[] = {"a", "b", "class", "count", "gigabytes_per_s", "latency_us"};
  int32_t line = reader->link_lines[i];
  const char *a, *b, *class_name;
  topo_link_t link;
  if (!json_is_object(object)) {
    return base_fail(COLL_ERROR_INVALID, "%s:%d: a link must be an object {\"a\": ...}",
                     reader->file, line);
  }
  COLL_TRY(check_keys(reader, line, object, keys, sizeof keys / sizeof keys[0]));
  COLL_TRY(get_text(reader, line, object, "a", true, &a));
  COLL_TRY(get_text(reader, line, object, "b", true, &b));
  COLL_TRY(get_text(reader, line, object, "class", true, &class_name));
  COLL_TRY(get_number(reader, line, object, "gigabytes_per_s", &link.gigabytes_per_s));
  COLL_TRY(get_number(reader, line, object, "latency_us", &link.latency_us));
  COLL_TRY(get_count(reader, line, object, &link.count));
  COLL_TRY(find_node(reader, names, line, a, &link.a));
  COLL_TRY(find_node(reader, names, line, b, &link.b));
  if (!topo_class_of(class_name, &link.link_class)) {
    const char *classes[TOPO_CLASS_COUNT];
    for (int c = 0; c < TOPO_CLASS_COUNT; c++) classes[c] = topo_class_name((topo_class_t)c);
    return base_fail(COLL_ERROR_INVALID,
                     "%s:%d: no class of links is called '%s'; did you mean '%s'?", reader->file,
                     line, class_name, base_text_nearest(class_name, classes, TOPO_CLASS_COUNT));
  }
  return topo_graph_add_link(reader->graph, &link);
}

static coll_status_t read_grid(const reader_t *reader, json_t *object) {
  static const char *const keys[] = {"extents", "wraps"};
  topo_grid_t *grid = &reader->graph->grid;
  if (object == NULL) return COLL_OK;
  json_t *extents = json_object_get(object, "extents"), *wraps = json_object_get(object, "wraps");
  size_t dims = json_array_size(extents);
  bool legal = dims >= 1 && dims <= TOPO_GRID_DIMS_MAX && json_is_boolean(wraps);
  for (size_t i = 0; legal && i < dims; i++) {
    json_int_t extent = json_integer_value(json_array_get(extents, i));
    legal = extent >= 1 && extent <= TOPO_NODES_MAX;
    grid->extents[i] = (int32_t)extent;
  }
  if (!legal) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s:%d: a grid needs \"extents\", 1 to %d whole numbers, and \"wraps\", true "
                     "or false",
                     reader->file, reader->grid_line, TOPO_GRID_DIMS_MAX);
  }
  grid->dims = (int32_t)dims;
  grid->wraps = json_is_true(wraps);
  return check_keys(reader, reader->grid_line, object, keys, 2);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static coll_status_t fill(const reader_t *reader, json_t *root) {
  json_t *nodes = json_object_get(root, "nodes"), *links = json_object_get(root, "links");
  for (size_t i = 0; i < json_array_size(nodes); i++) {
    COLL_TRY(read_node(reader, json_array_get(nodes, i), i));
  }
  topo_names_t names;
  int32_t twin;
  COLL_TRY(topo_names_create(reader->graph, &names, &twin));
  coll_status_t status = read_parents(reader, nodes, &names);
  for (size_t i = 0; status == COLL_OK && i < json_array_size(links); i++) {
    status = read_link(reader, json_array_get(links, i), i, &names);
  }
  free(names.slots);
  COLL_TRY(status);
  COLL_TRY(read_grid(reader, json_object_get(root, "grid")));
  const topo_source_t source = {reader->file, reader->node_lines, reader->link_lines,
                                reader->grid_line};
  return topo_graph_check(reader->graph, &source);
}

static coll_status_t read_root(reader_t *reader, json_t *root, const char *text, size_t bytes) {
  static const char *const keys[] = {"name", "grid", "nodes", "links"};
  const char *name;
  json_t *nodes = json_object_get(root, "nodes"), *links = json_object_get(root, "links");
  COLL_TRY(check_keys(reader, 1, root, keys, sizeof keys / sizeof keys[0]));
  if (!json_is_array(nodes) || !json_is_array(links)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s:1: a topology is an object with the arrays \"nodes\" and \"links\"",
                     reader->file);
  }
  COLL_TRY(base_alloc(json_array_size(nodes) + 1, sizeof(int32_t), "lines of a topology",
                      (void **)&reader->node_lines));
  COLL_TRY(base_alloc(json_array_size(links) + 1, sizeof(int32_t), "lines of a topology",
                      (void **)&reader->link_lines));
  find_lines(reader, text, bytes);
  COLL_TRY(get_text(reader, 1, root, "name", false, &name));
  COLL_TRY(topo_graph_create(name, &reader->graph));
  return fill(reader, root);
}

static coll_status_t malformed(const char *file, const json_error_t *error) {
  if (json_error_code(error) == json_error_premature_end_of_input) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s:%d: the file ends in the middle of the topology; copy it again", file,
                     error->line < 1 ? 1 : error->line);
  }
  return base_fail(COLL_ERROR_INVALID, "%s:%d: not JSON: %s; correct the text there", file,
                   error->line < 1 ? 1 : error->line, error->text);
}

coll_status_t topo_graph_parse(const char *text, size_t bytes, const char *file_name,
                               topo_graph_t **graph) {
  json_error_t error;
  reader_t reader = {.file = file_name, .grid_line = 1};
  json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  *graph = NULL;
  if (root == NULL) return malformed(file_name, &error);
  coll_status_t status = read_root(&reader, root, text, bytes);
  json_decref(root);
  free(reader.node_lines);
  free(reader.link_lines);
  if (status == COLL_OK) {
    *graph = reader.graph;
  } else {
    topo_graph_free(reader.graph);
  }
  return status;
}

coll_status_t topo_graph_read(FILE *in, const char *file_name, topo_graph_t **graph) {
  char *text = NULL;
  size_t capacity = 0, bytes = 0, got = 1;
  coll_status_t status = COLL_OK;
  *graph = NULL;
  while (status == COLL_OK && got > 0 && bytes < FILE_BYTES_MAX) {
    status = base_grow((void **)&text, &capacity, bytes + 65536, 1, "a topology's file");
    if (status != COLL_OK) break;
    got = fread(text + bytes, 1, capacity - bytes, in);
    bytes += got;
  }
  if (status == COLL_OK && ferror(in)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", file_name);
  }
  if (status == COLL_OK) status = topo_graph_parse(text, bytes, file_name, graph);
  free(text);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* With the fewest digits of 15 and 17 that read back as the same number. */
static coll_status_t put(const char *before, json_t *value, FILE *out) {
  int digits = 17;
  if (json_is_real(value)) {
    char text[32];
    snprintf(text, sizeof text, "%.15g", json_real_value(value));
    if (strtod(text, NULL) == json_real_value(value)) digits = 15;
  }
  fputs(before, out);
  int failed =
      value == NULL || json_dumpf(value, out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
  json_decref(value);
  if (!failed) return COLL_OK;
  return ferror(out) ? base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the topology")
                     : base_fail(COLL_ERROR_INVALID, "a name of the topology is not UTF-8");
}

static coll_status_t write_node(const topo_graph_t *graph, const topo_node_t *node, FILE *out) {
  COLL_TRY(put("    {\"name\": ", json_string(node->name), out));
  COLL_TRY(put(", \"kind\": ", json_string(topo_kind_name(node->kind)), out));
  if (node->parent != TOPO_NONE) {
    COLL_TRY(put(", \"parent\": ", json_string(graph->nodes[node->parent].name), out));
  }
  if (node->model[0] != '\0') COLL_TRY(put(", \"model\": ", json_string(node->model), out));
  fputc('}', out);
  return COLL_OK;
}

static coll_status_t write_link(const topo_graph_t *graph, const topo_link_t *link, FILE *out) {
  COLL_TRY(put("    {\"a\": ", json_string(graph->nodes[link->a].name), out));
  COLL_TRY(put(", \"b\": ", json_string(graph->nodes[link->b].name), out));
  fprintf(out, ", \"class\": \"%s\", \"count\": %d", topo_class_name(link->link_class),
          link->count);
  COLL_TRY(put(", \"gigabytes_per_s\": ", json_real(link->gigabytes_per_s), out));
  COLL_TRY(put(", \"latency_us\": ", json_real(link->latency_us), out));
  fputc('}', out);
  return COLL_OK;
}

static void write_grid(const topo_grid_t *grid, FILE *out) {
  fputs(",\n  \"grid\": {\"extents\": [", out);
  for (int32_t i = 0; i < grid->dims; i++) {
    fprintf(out, "%s%d", i > 0 ? ", " : "", grid->extents[i]);
  }
  fprintf(out, "], \"wraps\": %s}", grid->wraps ? "true" : "false");
}

coll_status_t topo_graph_write(const topo_graph_t *graph, FILE *out) {
  COLL_TRY(put("{\n  \"name\": ", json_string(graph->name), out));
  if (graph->grid.dims > 0) write_grid(&graph->grid, out);
  fputs(",\n  \"nodes\": [", out);
  for (size_t i = 0; i < graph->node_count; i++) {
    fputs(i > 0 ? ",\n" : "\n", out);
    COLL_TRY(write_node(graph, &graph->nodes[i], out));
  }
  fputs("\n  ],\n  \"links\": [", out);
  for (size_t i = 0; i < graph->link_count; i++) {
    fputs(i > 0 ? ",\n" : "\n", out);
    COLL_TRY(write_link(graph, &graph->links[i], out));
  }
  fputs("\n  ]\n}\n", out);
  if (!ferror(out)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the topology");
}
