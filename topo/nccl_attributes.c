/* Attributes of the current element, and nodes that are named by format. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topo/nccl_parser.h"

int32_t topo_nccl_line(const topo_nccl_parser_t *parser) {
  return (int32_t)XML_GetCurrentLineNumber(parser->xml);
}

topo_nccl_frame_t *topo_nccl_top(topo_nccl_parser_t *parser) {
  return &parser->frames[parser->depth];
}

const char *topo_nccl_find(const topo_nccl_parser_t *parser, const char *name) {
  for (const char **at = parser->attributes; *at != NULL; at += 2) {
    if (strcmp(at[0], name) == 0) return at[1];
  }
  return NULL;
}

coll_status_t topo_nccl_take_text(topo_nccl_parser_t *parser, const char *name, const char **text) {
  *text = topo_nccl_find(parser, name);
  if (*text != NULL) return COLL_OK;
  return TOPO_NCCL_REFUSE(parser, "<%s> has no %s; add %s=\"...\"", topo_nccl_top(parser)->name,
                          name, name);
}

coll_status_t topo_nccl_take_number_or(topo_nccl_parser_t *parser, const char *name, int64_t least,
                                       int64_t most, int64_t otherwise, int64_t *number) {
  const char *text = topo_nccl_find(parser, name);
  *number = otherwise;
  if (text == NULL || *text == '\0' || base_text_integer(text, least, most, number)) return COLL_OK;
  return TOPO_NCCL_REFUSE(parser, "%s=\"%.24s\": give a number from %lld to %lld", name, text,
                          (long long)least, (long long)most);
}

coll_status_t topo_nccl_take_number(topo_nccl_parser_t *parser, const char *name, int64_t least,
                                    int64_t most, int64_t *number) {
  const char *text;
  COLL_TRY(topo_nccl_take_text(parser, name, &text));
  if (base_text_integer(text, least, most, number)) return COLL_OK;
  return TOPO_NCCL_REFUSE(parser, "%s=\"%.24s\": give a number from %lld to %lld", name, text,
                          (long long)least, (long long)most);
}

void topo_nccl_copy_ascii(char *copy, size_t bytes, const char *text) {
  size_t i = 0;
  for (; i + 1 < bytes && text[i] != '\0'; i++) {
    copy[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : '_';
  }
  copy[i] = '\0';
}

coll_status_t topo_nccl_add_named(topo_nccl_parser_t *parser, int32_t line, topo_kind_t kind,
                                  int32_t parent, int32_t *node, const char *format, ...) {
  char name[TOPO_NAME_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  return topo_nccl_add_node(&parser->reader, line, kind, parent, name, node);
}

int topo_nccl_host_index(const topo_nccl_parser_t *parser) {
  return (int)(parser->host - parser->hosts);
}
