/* Reads MSCCL's XML by expat, one element at a time. */
#include <ctype.h>
#include <expat.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/text.h"
#include "base/xml.h"
#include "plan/text.h"
#include "tools/collplan/msccl.h"

#define CHUNKS_MAX (1 << 20) /* of one buffer of one gpu */

const char *const msccl_type_names[MSCCL_TYPE_COUNT] = {"s",    "r",   "rcs", "rrs", "rrc",
                                                        "rrcs", "cpy", "re",  "nop"};
const char msccl_buffer_letters[PLAN_BUFFER_COUNT] = {'i', 'o', 's'};

typedef enum element {
  ELEMENT_NONE, /* outside of <algo> */
  ELEMENT_ALGO,
  ELEMENT_GPU,
  ELEMENT_TB,
  ELEMENT_STEP,
  ELEMENT_COPY,
  ELEMENT_COUNT
} element_t;

static const char *const element_names[ELEMENT_COUNT] = {"the file", "algo", "gpu",
                                                         "tb",       "step", "copy"};
static const element_t parents[ELEMENT_COUNT] = {ELEMENT_NONE, ELEMENT_NONE, ELEMENT_ALGO,
                                                 ELEMENT_GPU,  ELEMENT_TB,   ELEMENT_GPU};

typedef struct parser {
  msccl_file_t *file;
  XML_Parser xml;
  coll_status_t status;
  FILE *warnings;
  element_t at;            /* the innermost open element that is not ignored */
  int ignored;             /* open elements in it that are */
  msccl_gpu_t *gpu;        /* the latest */
  const char **attributes; /* of the current element: name, value, name, value, NULL */
} parser_t;

coll_status_t msccl_refuse(const char *name, int line, const char *format, ...) {
  char why[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  return base_fail(COLL_ERROR_INVALID, "%s:%d: %s", name, line, why);
}

#define REFUSE(parser, ...) msccl_refuse((parser)->file->name, line_of(parser), __VA_ARGS__)

static int line_of(const parser_t *parser) {
  return (int)XML_GetCurrentLineNumber(parser->xml);
}

/* ---- attributes -----------------------------------------------------------------------------*/

static const char *find(const parser_t *parser, const char *name) {
  for (const char **at = parser->attributes; *at != NULL; at += 2) {
    if (strcmp(at[0], name) == 0) return at[1];
  }
  return NULL;
}

static coll_status_t take_word(const parser_t *parser, const char *name, const char **word) {
  *word = find(parser, name);
  if (*word != NULL) return COLL_OK;
  return REFUSE(parser, "<%s> lacks the attribute %s", element_names[parser->at], name);
}

static coll_status_t take_number(const parser_t *parser, const char *name, int32_t min, int32_t max,
                                 int32_t *number) {
  const char *word;
  int64_t value = 0;
  COLL_TRY(take_word(parser, name, &word));
  if (!base_text_integer(word, min, max, &value)) {
    return REFUSE(parser, "%s=\"%.24s\": expected a number from %d to %d", name, word, min, max);
  }
  *number = (int32_t)value;
  return COLL_OK;
}

static coll_status_t take_number_or(const parser_t *parser, const char *name, int32_t min,
                                    int32_t max, int32_t otherwise, int32_t *number) {
  *number = otherwise;
  return find(parser, name) == NULL ? COLL_OK : take_number(parser, name, min, max, number);
}

static coll_status_t take_buffer(const parser_t *parser, const char *name, plan_buffer_t *buffer) {
  const char *word;
  COLL_TRY(take_word(parser, name, &word));
  for (int i = 0; i < PLAN_BUFFER_COUNT; i++) {
    if (word[0] != msccl_buffer_letters[i] || word[1] != '\0') continue;
    *buffer = (plan_buffer_t)i;
    return COLL_OK;
  }
  return REFUSE(parser, "%s=\"%.24s\": buffers are i, o and s", name, word);
}

/* ---- elements -------------------------------------------------------------------------------*/

static coll_status_t take_collective(const parser_t *parser, coll_collective_t *collective) {
  static const struct {
    const char *name;
    coll_collective_t collective;
  } known[] = {{"allreduce", COLL_ALLREDUCE},
               {"allgather", COLL_ALLGATHER},
               {"alltoall", COLL_ALLTOALL},
               {"reduce_scatter", COLL_REDUCE_SCATTER},
               {"reducescatter", COLL_REDUCE_SCATTER},
               {"reduce", COLL_REDUCE},
               {"broadcast", COLL_BROADCAST}};
  const char *word;
  COLL_TRY(take_word(parser, "coll", &word));
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, word) != 0) continue;
    *collective = known[i].collective;
    return COLL_OK;
  }
  return REFUSE(
      parser,
      "coll=\"%.24s\": expected allreduce, allgather, alltoall, reduce_scatter, reduce or "
      "broadcast",
      word);
}

/* The name of a plan has letters, digits, '_' and '-' only, and is cut to fit. */
static void set_algorithm(msccl_file_t *file, const char *word) {
  snprintf(file->algorithm, sizeof file->algorithm, "%s", *word != '\0' ? word : "msccl");
  for (char *at = file->algorithm; *at != '\0'; at++) {
    if (!isalnum((unsigned char)*at) && *at != '-') *at = '_';
  }
}

static coll_status_t begin_algo(parser_t *parser) {
  msccl_file_t *file = parser->file;
  const char *word;
  int32_t in_place, out_of_place;
  file->line = line_of(parser);
  COLL_TRY(take_word(parser, "name", &word));
  set_algorithm(file, word);
  COLL_TRY(take_collective(parser, &file->collective));
  COLL_TRY(take_number(parser, "ngpus", 1, PLAN_RANKS_MAX, &file->ranks));
  COLL_TRY(take_number(parser, "nchunksperloop", 1, CHUNKS_MAX, &file->chunks));
  COLL_TRY(take_number_or(parser, "root", 0, file->ranks - 1, 0, &file->root));
  COLL_TRY(take_number_or(parser, "inplace", 0, 1, 0, &in_place));
  COLL_TRY(take_number_or(parser, "outofplace", 0, 1, !in_place, &out_of_place));
  file->in_place = in_place == 1 && out_of_place == 0;
  return base_alloc((size_t)file->ranks, sizeof *file->gpus, "a schedule", (void **)&file->gpus);
}

static coll_status_t begin_gpu(parser_t *parser) {
  msccl_file_t *file = parser->file;
  int32_t id;
  COLL_TRY(take_number(parser, "id", 0, file->ranks - 1, &id));
  msccl_gpu_t *gpu = &file->gpus[id];
  if (gpu->line != 0) return REFUSE(parser, "gpu %d again: it is in line %d", id, gpu->line);
  COLL_TRY(take_number(parser, "i_chunks", 0, CHUNKS_MAX, &gpu->chunks[PLAN_INPUT]));
  COLL_TRY(take_number(parser, "o_chunks", 0, CHUNKS_MAX, &gpu->chunks[PLAN_OUTPUT]));
  COLL_TRY(take_number(parser, "s_chunks", 0, CHUNKS_MAX, &gpu->chunks[PLAN_SCRATCH]));
  gpu->line = line_of(parser);
  parser->gpu = gpu;
  return COLL_OK;
}

static coll_status_t begin_tb(parser_t *parser) {
  msccl_gpu_t *gpu = parser->gpu;
  int32_t ranks = parser->file->ranks;
  msccl_block_t block = {.line = line_of(parser)};
  COLL_TRY(take_number(parser, "id", 0, INT32_MAX, &block.id));
  COLL_TRY(take_number(parser, "send", -1, ranks - 1, &block.send));
  COLL_TRY(take_number(parser, "recv", -1, ranks - 1, &block.recv));
  COLL_TRY(take_number_or(parser, "chan", -1, PLAN_CHANNELS_MAX - 1, 0, &block.channel));
  if (block.channel < 0 && (block.send >= 0 || block.recv >= 0)) {
    return REFUSE(parser, "tb %d passes messages and has no channel (chan=\"-1\")", block.id);
  }
  for (size_t i = 0; i < gpu->count; i++) {
    if (gpu->blocks[i].id != block.id) continue;
    return REFUSE(parser, "tb %d again: it is in line %d", block.id, gpu->blocks[i].line);
  }
  if (gpu->count == PLAN_LANES_MAX) {
    return REFUSE(parser, "a gpu has at most %d thread blocks", PLAN_LANES_MAX);
  }
  COLL_TRY(base_grow((void **)&gpu->blocks, &gpu->capacity, gpu->count + 1, sizeof block,
                     "thread blocks"));
  gpu->blocks[gpu->count++] = block;
  return COLL_OK;
}

static coll_status_t take_type(const parser_t *parser, msccl_type_t *type) {
  const char *word;
  COLL_TRY(take_word(parser, "type", &word));
  for (int i = 0; i < MSCCL_TYPE_COUNT; i++) {
    if (strcmp(msccl_type_names[i], word) != 0) continue;
    *type = (msccl_type_t)i;
    return COLL_OK;
  }
  return REFUSE(parser, "type=\"%.24s\": expected s, r, rcs, rrs, rrc, rrcs, cpy, re or nop", word);
}

static coll_status_t begin_step(parser_t *parser) {
  msccl_block_t *block = &parser->gpu->blocks[parser->gpu->count - 1];
  msccl_step_t step = {.line = line_of(parser)};
  int32_t number;
  COLL_TRY(take_number(parser, "s", 0, INT32_MAX, &number));
  if ((size_t)number != block->count) {
    return REFUSE(parser, "step %d of tb %d, where step %zu is next: steps count from 0", number,
                  block->id, block->count);
  }
  COLL_TRY(take_type(parser, &step.type));
  COLL_TRY(take_number_or(parser, "depid", -1, INT32_MAX, -1, &step.dep_block));
  COLL_TRY(take_number_or(parser, "deps", -1, INT32_MAX, -1, &step.dep_step));
  if ((step.dep_block < 0) != (step.dep_step < 0)) {
    return REFUSE(parser, "depid and deps name a step together, or are both -1");
  }
  if (step.type != MSCCL_NOP) {
    COLL_TRY(take_buffer(parser, "srcbuf", &step.src_buffer));
    COLL_TRY(take_buffer(parser, "dstbuf", &step.dst_buffer));
    COLL_TRY(take_number(parser, "srcoff", -1, CHUNKS_MAX, &step.src_first));
    COLL_TRY(take_number(parser, "dstoff", -1, CHUNKS_MAX, &step.dst_first));
    COLL_TRY(take_number(parser, "cnt", 1, CHUNKS_MAX, &step.count));
  }
  COLL_TRY(base_grow((void **)&block->steps, &block->capacity, block->count + 1, sizeof step,
                     "a schedule's steps"));
  block->steps[block->count++] = step;
  return COLL_OK;
}

static coll_status_t begin_copy(parser_t *parser) {
  msccl_gpu_t *gpu = parser->gpu;
  msccl_copy_t copy = {.line = line_of(parser)};
  COLL_TRY(take_number(parser, "i_off", 0, CHUNKS_MAX, &copy.from));
  COLL_TRY(take_number(parser, "o_off", 0, CHUNKS_MAX, &copy.to));
  COLL_TRY(base_grow((void **)&gpu->copies, &gpu->copy_capacity, gpu->copy_count + 1, sizeof copy,
                     "a schedule's copies"));
  gpu->copies[gpu->copy_count++] = copy;
  return COLL_OK;
}

static void ignore(parser_t *parser, const char *name) {
  parser->ignored = 1;
  if (parser->warnings == NULL) return;
  fprintf(parser->warnings,
          "warning: %s:%d: <%.24s> in <%s> is ignored: an <algo> has <gpu>, a <gpu> has <tb> and "
          "<copy>, a <tb> has <step>\n",
          parser->file->name, line_of(parser), name, element_names[parser->at]);
}

static coll_status_t begin(parser_t *parser, const char *name) {
  int element = ELEMENT_ALGO;
  while (element < ELEMENT_COUNT && strcmp(element_names[element], name) != 0) element++;
  if (parser->at == ELEMENT_NONE && element != ELEMENT_ALGO) {
    return REFUSE(parser, "<%.24s> is not the beginning of a schedule of MSCCL, which is <algo>",
                  name);
  }
  if (element == ELEMENT_COUNT || parents[element] != parser->at) {
    ignore(parser, name);
    return COLL_OK;
  }
  parser->at = (element_t)element;
  switch (parser->at) {
    case ELEMENT_ALGO: return begin_algo(parser);
    case ELEMENT_GPU: return begin_gpu(parser);
    case ELEMENT_TB: return begin_tb(parser);
    case ELEMENT_STEP: return begin_step(parser);
    case ELEMENT_COPY: return begin_copy(parser);
    case ELEMENT_NONE:
    case ELEMENT_COUNT: break;
  }
  return COLL_OK;
}

/* ---- expat ----------------------------------------------------------------------------------*/

static void on_start(void *data, const char *name, const char **attributes) {
  parser_t *parser = data;
  if (parser->status != COLL_OK) return;
  if (parser->ignored > 0) {
    parser->ignored++;
    return;
  }
  parser->attributes = attributes;
  parser->status = begin(parser, name);
  if (parser->status != COLL_OK) XML_StopParser(parser->xml, XML_FALSE);
}

static void on_end(void *data, const char *name) {
  parser_t *parser = data;
  (void)name; /* expat checks that tags match */
  if (parser->ignored > 0) {
    parser->ignored--;
  } else {
    parser->at = parents[parser->at];
  }
}

/* A schedule needs no document type, and entities could make a short file long. */
static void on_doctype(void *data, const char *name, const char *system, const char *public,
                       int has_internal_subset) {
  parser_t *parser = data;
  (void)name, (void)system, (void)public, (void)has_internal_subset;
  if (parser->status != COLL_OK) return;
  parser->status = REFUSE(parser, "a document type declaration: schedules have none");
  XML_StopParser(parser->xml, XML_FALSE);
}

static void warn_of_repair(void *data, int line, const char *sentence) {
  const parser_t *parser = data;
  if (parser->warnings == NULL) return;
  fprintf(parser->warnings, "warning: %s:%d: %s\n", parser->file->name, line, sentence);
}

static coll_status_t parse_all(parser_t *parser, const char *text, size_t bytes) {
  if (bytes > INT_MAX) return REFUSE(parser, "the file has more than 2 GiB");
  if (XML_Parse(parser->xml, text, (int)bytes, XML_TRUE) == XML_STATUS_OK) return COLL_OK;
  if (parser->status != COLL_OK) return parser->status;
  return REFUSE(parser, "not well-formed XML: %s", XML_ErrorString(XML_GetErrorCode(parser->xml)));
}

static coll_status_t read_all(parser_t *parser, FILE *in) {
  char *text, *repaired = NULL;
  size_t bytes, repaired_bytes;
  coll_status_t status = base_xml_read(in, parser->file->name, &text, &bytes);
  if (status == COLL_OK) {
    status = base_xml_repair(text, bytes, warn_of_repair, parser, &repaired, &repaired_bytes);
  }
  if (status == COLL_OK) status = parse_all(parser, repaired, repaired_bytes);
  free(repaired);
  free(text);
  return status;
}

static coll_status_t check_complete(const msccl_file_t *file) {
  for (int32_t rank = 0; rank < file->ranks; rank++) {
    if (file->gpus[rank].line != 0) continue;
    return msccl_refuse(file->name, file->line, "ngpus is %d, but <gpu id=\"%d\"> is missing",
                        file->ranks, rank);
  }
  return COLL_OK;
}

coll_status_t msccl_parse(FILE *in, const char *name, FILE *warnings, msccl_file_t *file) {
  *file = (msccl_file_t){.name = name};
  parser_t parser = {.file = file, .warnings = warnings, .xml = XML_ParserCreate(NULL)};
  if (parser.xml == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory to parse XML");
  XML_SetUserData(parser.xml, &parser);
  XML_SetElementHandler(parser.xml, on_start, on_end);
  XML_SetStartDoctypeDeclHandler(parser.xml, on_doctype);
  coll_status_t status = read_all(&parser, in);
  XML_ParserFree(parser.xml);
  return status == COLL_OK ? check_complete(file) : status;
}

void msccl_file_free(msccl_file_t *file) {
  for (int32_t rank = 0; file->gpus != NULL && rank < file->ranks; rank++) {
    msccl_gpu_t *gpu = &file->gpus[rank];
    for (size_t i = 0; i < gpu->count; i++) free(gpu->blocks[i].steps);
    free(gpu->blocks);
    free(gpu->copies);
  }
  free(file->gpus);
  file->gpus = NULL;
}
