/* One pass from '<' to '<'. Elements are not matched: expat does that. */
#include "base/xml.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)
#define ATTRIBUTES_MAX 64 /* of an element, whose names are compared; NCCL reads 16 */
#define SHOWN_MAX 24      /* characters of a word in a warning */

typedef struct part {
  const char *begin, *end;
} part_t;

typedef struct attribute {
  part_t name, value;
} attribute_t;

typedef struct repair {
  const char *at, *end;
  int line;
  FILE *out;
  base_xml_warn_t warn;
  void *context;
  part_t element; /* the name of the current one */
  attribute_t attributes[ATTRIBUTES_MAX];
  size_t attribute_count;
} repair_t;

coll_status_t base_xml_read(FILE *in, const char *name, char **text, size_t *bytes) {
  size_t capacity = 0, got = 1;
  *text = NULL;
  *bytes = 0;
  while (got > 0) {
    if (*bytes >= FILE_BYTES_MAX) {
      return base_fail(COLL_ERROR_INVALID, "%s has more than 1 GiB", name);
    }
    COLL_TRY(base_grow((void **)text, &capacity, *bytes + 65536, 1, "the text of a file"));
    got = fread(*text + *bytes, 1, capacity - *bytes, in);
    *bytes += got;
  }
  if (!ferror(in)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", name);
}

/* ---- characters -----------------------------------------------------------------------------*/

static bool has(const repair_t *repair, const char *word) {
  size_t length = strlen(word);
  return (size_t)(repair->end - repair->at) >= length && memcmp(repair->at, word, length) == 0;
}

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static char take(repair_t *repair) {
  char c = *repair->at++;
  if (c == '\n') repair->line++;
  return c;
}

static void copy_up_to(repair_t *repair, const char *end) {
  while (repair->at < end) fputc(take(repair), repair->out);
}

/* Leaves the line breaks of what is left out. */
static void drop_up_to(repair_t *repair, const char *end) {
  while (repair->at < end) {
    if (take(repair) == '\n') fputc('\n', repair->out);
  }
}

/* ---- warnings -------------------------------------------------------------------------------*/

static int shown(part_t part) {
  ptrdiff_t length = part.end - part.begin;
  return length < SHOWN_MAX ? (int)length : SHOWN_MAX;
}

#define WARN(repair, ...)                                        \
  do {                                                           \
    char sentence[256];                                          \
    snprintf(sentence, sizeof sentence, __VA_ARGS__);            \
    (repair)->warn((repair)->context, (repair)->line, sentence); \
  } while (0)

/* ---- attributes -----------------------------------------------------------------------------*/

/* Where one of XML's own entities ends that begins at `at`; NULL: none does. */
static const char *entity_end(const repair_t *repair) {
  static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
  for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
    if (has(repair, entities[i])) return repair->at + strlen(entities[i]);
  }
  return NULL;
}

/* Copies a value. Returns the first character that stands for itself as by NCCL, not by XML; or 0.
 */
static char copy_value(repair_t *repair, const char *end) {
  char odd = 0;
  while (repair->at < end) {
    const char *entity = entity_end(repair);
    if (entity != NULL && entity <= end) {
      copy_up_to(repair, entity);
      continue;
    }
    char c = take(repair);
    bool escaped = c == '&' || c == '<';
    if (escaped && odd == 0) odd = c;
    if (escaped) {
      fputs(c == '&' ? "&amp;" : "&lt;", repair->out);
    } else {
      fputc(iscntrl((unsigned char)c) && !is_space(c) ? '?' : c, repair->out);
    }
  }
  return odd;
}

static const attribute_t *find_named(const repair_t *repair, part_t name) {
  size_t length = (size_t)(name.end - name.begin);
  for (size_t i = 0; i < repair->attribute_count; i++) {
    const attribute_t *each = &repair->attributes[i];
    if ((size_t)(each->name.end - each->name.begin) != length) continue;
    if (memcmp(each->name.begin, name.begin, length) == 0) return each;
  }
  return NULL;
}

static void drop_second(repair_t *repair, const attribute_t *first, const attribute_t *second) {
  WARN(repair, "<%.*s> has %.*s=\"%.*s\" and then \"%.*s\"; the first one is taken, as by NCCL",
       shown(repair->element), repair->element.begin, shown(first->name), first->name.begin,
       shown(first->value), first->value.begin, shown(second->value), second->value.begin);
  drop_up_to(repair, second->value.end + 1);
}

static void copy_attribute(repair_t *repair, const attribute_t *attribute) {
  int line = repair->line;
  copy_up_to(repair, attribute->value.begin);
  char odd = copy_value(repair, attribute->value.end);
  copy_up_to(repair, attribute->value.end + 1);
  if (repair->attribute_count < ATTRIBUTES_MAX) {
    repair->attributes[repair->attribute_count++] = *attribute;
  }
  if (odd == 0) return;
  int end_line = repair->line;
  repair->line = line;
  WARN(repair, "%.*s=\"%.*s\": '%c' is read as it stands, as by NCCL; XML has %s there",
       shown(attribute->name), attribute->name.begin, shown(attribute->value),
       attribute->value.begin, odd, odd == '&' ? "&amp;" : "&lt;");
  repair->line = end_line;
}

static const char *skip_spaces(const repair_t *repair, const char *at) {
  while (at < repair->end && is_space(*at)) at++;
  return at;
}

/* The attribute at the current place. False: what is there is none; expat says why. */
static bool repair_attribute(repair_t *repair) {
  attribute_t attribute = {.name = {repair->at, repair->at}};
  const char *at = repair->at;
  while (at < repair->end && !is_space(*at) && strchr("=/><\"'", *at) == NULL) at++;
  attribute.name.end = at;
  if (at == repair->at) return false;
  at = skip_spaces(repair, at);
  if (at < repair->end && *at != '=') {
    WARN(repair, "<%.*s> has %.*s without a value, which is ignored", shown(repair->element),
         repair->element.begin, shown(attribute.name), attribute.name.begin);
    drop_up_to(repair, attribute.name.end);
    return true;
  }
  if (at < repair->end) at = skip_spaces(repair, at + 1);
  if (at >= repair->end || (*at != '"' && *at != '\'')) return false;
  attribute.value.begin = at + 1;
  attribute.value.end = memchr(at + 1, *at, (size_t)(repair->end - at - 1));
  if (attribute.value.end == NULL) return false;
  const attribute_t *first = find_named(repair, attribute.name);
  if (first != NULL) {
    drop_second(repair, first, &attribute);
  } else {
    copy_attribute(repair, &attribute);
  }
  return true;
}

/* ---- the text -------------------------------------------------------------------------------*/

/* At the '<' of an element. Ends at the '>' or '/', or where expat will refuse it. */
static void repair_element(repair_t *repair) {
  const char *at = repair->at + 1;
  while (at < repair->end && !is_space(*at) && *at != '/' && *at != '>') at++;
  repair->element = (part_t){repair->at + 1, at};
  repair->attribute_count = 0;
  copy_up_to(repair, at);
  do {
    copy_up_to(repair, skip_spaces(repair, repair->at));
  } while (repair->at < repair->end && *repair->at != '/' && *repair->at != '>' &&
           repair_attribute(repair));
}

/* The end of the first `word` from `at` on, or of the text. */
static const char *end_of(const repair_t *repair, const char *word) {
  repair_t ahead = *repair;
  while (ahead.at < ahead.end && !has(&ahead, word)) ahead.at++;
  return ahead.at < ahead.end ? ahead.at + strlen(word) : ahead.end;
}

/* At "<!--". In XML no comment has "--", nor any control character. */
static void empty_comment(repair_t *repair) {
  repair->at += strlen("<!--");
  const char *end = end_of(repair, "-->");
  bool is_closed = end - repair->at >= 3 && memcmp(end - 3, "-->", 3) == 0;
  fputs("<!--", repair->out);
  drop_up_to(repair, end);
  if (is_closed) fputs("-->", repair->out);
}

static void repair_all(repair_t *repair) {
  while (repair->at < repair->end) {
    if (has(repair, "<!--")) {
      empty_comment(repair);
    } else if (has(repair, "<?")) {
      copy_up_to(repair, end_of(repair, "?>"));
    } else if (*repair->at == '<' && !has(repair, "</") && !has(repair, "<!")) {
      repair_element(repair);
    } else {
      fputc(take(repair), repair->out);
    }
  }
}

coll_status_t base_xml_repair(const char *text, size_t bytes, base_xml_warn_t warn, void *context,
                              char **repaired, size_t *repaired_bytes) {
  repair_t repair = {.at = text, .end = text + bytes, .line = 1, .warn = warn, .context = context};
  *repaired = NULL;
  repair.out = open_memstream(repaired, repaired_bytes);
  if (repair.out == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for the text of a file");
  repair_all(&repair);
  bool is_whole = !ferror(repair.out);
  is_whole = fclose(repair.out) == 0 && is_whole;
  return is_whole ? COLL_OK : base_fail(COLL_ERROR_MEMORY, "no memory for the text of a file");
}
