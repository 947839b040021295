/* Attributes of the current element, and nodes that are named by format. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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

/* The number that a text begins with, as NCCL's strtol reads it. */
static bool read_number(topo_nccl_parser_t *parser, const char *name, const char *text,
                        int64_t least, int64_t most, int64_t *number) {
  char *end;
  if (base_text_integer(text, least, most, number)) return true;
  long long begins = strtoll(text, &end, 0);
  if (end == text || begins < least || begins > most) return false;
  TOPO_NCCL_WARN(parser, "%s=\"%.24s\" is read as %lld, as by NCCL", name, text, begins);
  *number = begins;
  return true;
}

int64_t topo_nccl_take_number_or(topo_nccl_parser_t *parser, const char *name, int64_t least,
                                 int64_t most, int64_t otherwise) {
  const char *text = topo_nccl_find(parser, name);
  int64_t number;
  if (text == NULL || *text == '\0') return otherwise;
  if (read_number(parser, name, text, least, most, &number)) return number;
  TOPO_NCCL_WARN(parser, "%s=\"%.24s\" is no number from %lld to %lld and ignored", name, text,
                 (long long)least, (long long)most);
  return otherwise;
}

coll_status_t topo_nccl_take_number(topo_nccl_parser_t *parser, const char *name, int64_t least,
                                    int64_t most, int64_t *number) {
  const char *text;
  COLL_TRY(topo_nccl_take_text(parser, name, &text));
  if (read_number(parser, name, text, least, most, number)) return COLL_OK;
  return TOPO_NCCL_REFUSE(parser, "%s=\"%.24s\": give a number from %lld to %lld", name, text,
                          (long long)least, (long long)most);
}

coll_status_t topo_nccl_take_free(topo_nccl_numbers_t *numbers, int64_t wanted, int32_t *number) {
  size_t word = (size_t)wanted / 64, known = numbers->capacity;
  if (word < known && (numbers->words[word] >> wanted % 64 & 1) != 0) {
    return topo_nccl_take_free(numbers, numbers->next, number);
  }
  COLL_TRY(base_grow((void **)&numbers->words, &numbers->capacity, word + 1, sizeof(uint64_t),
                     "numbers of devices"));
  if (numbers->capacity > known) {
    memset(numbers->words + known, 0, (numbers->capacity - known) * sizeof(uint64_t));
  }
  numbers->words[word] |= UINT64_C(1) << wanted % 64;
  if (wanted >= numbers->next) numbers->next = (int32_t)wanted + 1;
  *number = (int32_t)wanted;
  return COLL_OK;
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
