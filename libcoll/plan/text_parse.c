/*
 * Reads plans from text: one line at a time into a buffer, with a cursor in it. Errors quote the
 * word at the cursor.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/text.h"
#include "plan/text.h"

#define LINE_BYTES_MAX (256 * 1024) /* a reduce over 4096 ranks takes 90 KB */
#define SCRATCH_MAX (PLAN_RANKS_MAX * PLAN_TEXT_PARTS_MAX)

typedef enum field {
  FIELD_RANKS,
  FIELD_ROOT,
  FIELD_PARTS,
  FIELD_SCRATCH,
  FIELD_LANES,
  FIELD_DEPTH,
  FIELD_MESSAGE,
  FIELD_MULTICAST,   /* optional, default 0 */
  FIELD_OWN_SCRATCH, /* the same */
  FIELD_COUNT
} field_t;

static const struct {
  const char *name;
  int32_t min, max;
} fields[FIELD_COUNT] = {
    [FIELD_RANKS] = {"ranks", 1, PLAN_RANKS_MAX},
    [FIELD_ROOT] = {"root", 0, PLAN_RANKS_MAX - 1},
    [FIELD_PARTS] = {"parts", 1, PLAN_TEXT_PARTS_MAX},
    [FIELD_SCRATCH] = {"scratch", 0, SCRATCH_MAX},
    [FIELD_LANES] = {"lanes", 1, PLAN_LANES_MAX},
    [FIELD_DEPTH] = {"depth", 0, PLAN_DEPTH_MAX},
    [FIELD_MESSAGE] = {"message", 0, SCRATCH_MAX},
    [FIELD_MULTICAST] = {"multicast", 0, 1},
    [FIELD_OWN_SCRATCH] = {"own_scratch", 0, 1},
};

typedef struct reader {
  FILE *in;
  const char *file_name;
  char *line;
  size_t capacity;
  int number;       /* of the line, from 1 */
  const char *at;   /* in the line */
  const char *word; /* where the last word started, for errors */
  bool ended;       /* no more lines */

  coll_collective_t collective;
  char algorithm[PLAN_NAME_BYTES];
  int32_t values[FIELD_COUNT];
  bool given[FIELD_COUNT], reach_given, order_given;
  plan_reach_t reach;
  plan_order_t order;

  plan_t *plan; /* made at the first line after the header */
  int32_t rank, lane;
  struct {
    int *numbers; /* line number of every step of the current rank */
    size_t capacity;
  } lines[PLAN_LANES_MAX];
} reader_t;

/* ---- errors ---- */

static coll_status_t refuse(const reader_t *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static coll_status_t refuse(const reader_t *reader, const char *format, ...) {
  char why[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  return base_fail(COLL_ERROR_INVALID, "%s:%d: %s", reader->file_name, reader->number, why);
}

/* Returns the error "expected X, found 'word'" for the word at `word`. */
static coll_status_t expected(const reader_t *reader, const char *what, const char *word) {
  size_t length = strcspn(word, " \t,");
  if (length == 0 && *word != '\0') length = 1;
  if (length == 0) return refuse(reader, "expected %s, found the end of the line", what);
  bool is_long = length > 24;
  return refuse(reader, "expected %s, found '%.*s%s'", what, is_long ? 24 : (int)length, word,
                is_long ? "..." : "");
}

/* ---- words ---- */

/* Reads one line, without comment and newline. At the end of the file, sets reader->ended. */
static coll_status_t read_line(reader_t *reader, bool *is_blank) {
  size_t length = 0;
  bool is_comment = false;
  int byte;
  reader->number++;
  while ((byte = getc(reader->in)) != EOF && byte != '\n') {
    if (byte == '\0') return refuse(reader, "a zero byte: this is not a plan in text form");
    if (byte == '#') is_comment = true;
    if (is_comment) continue;
    if (length >= LINE_BYTES_MAX) {
      return refuse(reader, "the line is longer than %d bytes", LINE_BYTES_MAX);
    }
    COLL_TRY(base_grow((void **)&reader->line, &reader->capacity, length + 2, 1, "a line"));
    reader->line[length++] = (char)byte;
  }
  if (byte == EOF && ferror(reader->in)) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", reader->file_name);
  }
  reader->ended = byte == EOF && length == 0;
  COLL_TRY(base_grow((void **)&reader->line, &reader->capacity, length + 1, 1, "a line"));
  while (length > 0 && isspace((unsigned char)reader->line[length - 1])) length--;
  reader->line[length] = '\0';
  reader->at = reader->line;
  *is_blank = reader->line[strspn(reader->line, " \t")] == '\0';
  return COLL_OK;
}

static coll_status_t next_line(reader_t *reader) {
  bool is_blank = true;
  while (is_blank && !reader->ended) COLL_TRY(read_line(reader, &is_blank));
  return COLL_OK;
}

static void skip_spaces(reader_t *reader) {
  reader->at += strspn(reader->at, " \t");
  reader->word = reader->at;
}

/* If the next characters are `mark`, moves past them and returns true. */
static bool accept(reader_t *reader, const char *mark) {
  skip_spaces(reader);
  size_t length = strlen(mark);
  if (strncmp(reader->at, mark, length) != 0) return false;
  reader->at += length;
  return true;
}

static coll_status_t expect(reader_t *reader, const char *mark) {
  if (accept(reader, mark)) return COLL_OK;
  char what[16];
  snprintf(what, sizeof what, "'%s'", mark);
  return expected(reader, what, reader->at);
}

static coll_status_t expect_end_of_line(reader_t *reader) {
  skip_spaces(reader);
  if (*reader->at == '\0') return COLL_OK;
  return expected(reader, "the end of the line", reader->at);
}

/* The next run of letters, digits, '_' and '-'; "" if there is none. */
static void take_word(reader_t *reader, char word[PLAN_NAME_BYTES]) {
  skip_spaces(reader);
  size_t length = 0;
  while (isalnum((unsigned char)reader->at[length]) || reader->at[length] == '_' ||
         reader->at[length] == '-') {
    length++;
  }
  base_text_word(reader->at, length, word, PLAN_NAME_BYTES);
  reader->at += length;
}

static coll_status_t take_number(reader_t *reader, const char *what, int32_t min, int32_t max,
                                 int32_t *number) {
  skip_spaces(reader);
  char digits[12], wanted[96];
  size_t length = strspn(reader->at, "0123456789");
  int64_t value = 0;
  base_text_word(reader->at, length, digits, sizeof digits);
  if (!base_text_integer(digits, min, max, &value)) {
    snprintf(wanted, sizeof wanted, "%s from %d to %d", what, min, max);
    return expected(reader, wanted, reader->at);
  }
  reader->at += length;
  *number = (int32_t)value;
  return COLL_OK;
}

/* ---- the header ---- */

static coll_status_t read_title(reader_t *reader) {
  char word[PLAN_NAME_BYTES];
  COLL_TRY(next_line(reader));
  if (reader->ended) return refuse(reader, "the file is empty; a plan starts with 'plan'");
  take_word(reader, word);
  if (strcmp(word, "plan") != 0) {
    return expected(reader, "'plan COLLECTIVE ALGORITHM'", reader->word);
  }
  take_word(reader, word);
  if (*word == '\0') return expected(reader, "a collective", reader->word);
  coll_status_t status = base_collective_find(word, &reader->collective);
  if (status != COLL_OK) return refuse(reader, "%s", base_last_error());
  take_word(reader, reader->algorithm);
  if (reader->algorithm[0] == '\0') return expected(reader, "an algorithm's name", reader->word);
  if (reader->at - reader->word >= PLAN_NAME_BYTES) {
    return refuse(reader, "the algorithm's name is longer than %d characters", PLAN_NAME_BYTES - 1);
  }
  return expect_end_of_line(reader);
}

static coll_status_t read_reach(reader_t *reader) {
  char word[PLAN_NAME_BYTES];
  if (reader->reach_given) return refuse(reader, "'reach' is given twice");
  reader->reach_given = true;
  take_word(reader, word);
  for (int i = 0; i < PLAN_REACH_COUNT; i++) {
    if (strcmp(plan_reach_name((plan_reach_t)i), word) == 0) {
      reader->reach = (plan_reach_t)i;
      return expect_end_of_line(reader);
    }
  }
  return expected(reader, "own, scratch or user", reader->word);
}

static coll_status_t read_order(reader_t *reader) {
  char word[PLAN_NAME_BYTES];
  if (reader->order_given) return refuse(reader, "'order' is given twice");
  reader->order_given = true;
  take_word(reader, word);
  for (int i = PLAN_ORDER_ANY; i < PLAN_ORDER_COUNT; i++) {
    if (strcmp(plan_order_name((plan_order_t)i), word) == 0) {
      reader->order = (plan_order_t)i;
      return expect_end_of_line(reader);
    }
  }
  return expected(reader, "any, fixed, canonical or exact", reader->word);
}

/* Reads one header line. *is_header: the word names a header field. */
static coll_status_t read_field(reader_t *reader, const char *word, bool *is_header) {
  *is_header = true;
  if (strcmp(word, "reach") == 0) return read_reach(reader);
  if (strcmp(word, "order") == 0) return read_order(reader);
  for (int i = 0; i < FIELD_COUNT; i++) {
    if (strcmp(fields[i].name, word) != 0) continue;
    if (reader->given[i]) return refuse(reader, "'%s' is given twice", word);
    reader->given[i] = true;
    COLL_TRY(take_number(reader, fields[i].name, fields[i].min, fields[i].max, &reader->values[i]));
    return expect_end_of_line(reader);
  }
  *is_header = false;
  return COLL_OK;
}

/* Called at the first word that is not a header field: all required fields must have been given. */
static coll_status_t check_header_complete(const reader_t *reader) {
  const char *lacking = reader->reach_given ? NULL : "reach";
  for (int i = FIELD_COUNT - 1; i >= 0; i--) {
    bool optional = i == FIELD_MULTICAST || i == FIELD_OWN_SCRATCH;
    if (!reader->given[i] && !optional) lacking = fields[i].name;
  }
  if (lacking == NULL) return COLL_OK;
  char wanted[48];
  snprintf(wanted, sizeof wanted, "the header's '%s' line", lacking);
  return expected(reader, wanted, reader->word);
}

static coll_status_t make_plan(reader_t *reader) {
  COLL_TRY(check_header_complete(reader));
  const int32_t *values = reader->values;
  if (values[FIELD_ROOT] >= values[FIELD_RANKS]) {
    return refuse(reader, "root %d is not one of the %d ranks", values[FIELD_ROOT],
                  values[FIELD_RANKS]);
  }
  plan_shape_t shape = {
      .collective = reader->collective, .size = values[FIELD_RANKS], .root = values[FIELD_ROOT]};
  plan_t *plan = NULL;
  COLL_TRY(plan_create(&shape, reader->algorithm, &plan));
  coll_status_t status = plan_set_lanes(plan, values[FIELD_LANES]);
  if (status != COLL_OK) {
    plan_free(plan);
    return status;
  }
  plan->parts = values[FIELD_PARTS];
  plan->scratch_chunks = values[FIELD_SCRATCH];
  plan->depth = values[FIELD_DEPTH];
  plan->message_chunks = values[FIELD_MESSAGE];
  plan->multicast = values[FIELD_MULTICAST] != 0;
  plan->own_scratch = values[FIELD_OWN_SCRATCH] != 0;
  plan->reach = reader->reach;
  plan->order = reader->order;
  reader->plan = plan;
  return COLL_OK;
}

/* ---- steps ---- */

static coll_status_t take_span(reader_t *reader, plan_span_t *span) {
  char word[PLAN_NAME_BYTES];
  skip_spaces(reader);
  const char *start = reader->at;
  span->rank = reader->rank;
  if (isdigit((unsigned char)*reader->at)) {
    COLL_TRY(take_number(reader, "a rank", 0, reader->plan->shape.size - 1, &span->rank));
    COLL_TRY(expect(reader, "."));
  }
  take_word(reader, word);
  int buffer = 0;
  while (buffer < PLAN_BUFFER_COUNT && strcmp(plan_buffer_name((plan_buffer_t)buffer), word) != 0) {
    buffer++;
  }
  if (buffer == PLAN_BUFFER_COUNT) {
    return expected(reader, "a span such as input[0+1] or 2.scratch[4+2]", start);
  }
  span->buffer = (plan_buffer_t)buffer;
  COLL_TRY(expect(reader, "["));
  COLL_TRY(take_number(reader, "a chunk", 0, INT32_MAX, &span->first));
  COLL_TRY(expect(reader, "+"));
  COLL_TRY(take_number(reader, "a number of chunks", 1, INT32_MAX, &span->count));
  return expect(reader, "]");
}

static coll_status_t take_peer(reader_t *reader, int32_t *peer) {
  return take_number(reader, "a rank", 0, reader->plan->shape.size - 1, peer);
}

/* "1", or "1:5" for channel 5. */
static coll_status_t take_channel(reader_t *reader, int32_t *peer, int32_t *channel) {
  COLL_TRY(take_peer(reader, peer));
  *channel = reader->lane;
  if (!accept(reader, ":")) return COLL_OK;
  return take_number(reader, "a channel", 0, PLAN_CHANNELS_MAX - 1, channel);
}

static coll_status_t take_sources(reader_t *reader, plan_step_t *step) {
  plan_program_t *program = &reader->plan->programs[reader->rank];
  step->reduce.first_source = (int32_t)program->source_count;
  do {
    COLL_TRY(base_grow((void **)&program->sources, &program->source_capacity,
                       program->source_count + 1, sizeof *program->sources, "reduce sources"));
    COLL_TRY(take_span(reader, &program->sources[program->source_count]));
    program->source_count++;
    step->reduce.source_count++;
  } while (accept(reader, ","));
  return COLL_OK;
}

static coll_status_t take_operands(reader_t *reader, plan_step_t *step) {
  switch (step->kind) {
    case PLAN_COPY:
      COLL_TRY(take_span(reader, &step->copy.dst));
      COLL_TRY(expect(reader, "<-"));
      return take_span(reader, &step->copy.src);
    case PLAN_REDUCE:
      COLL_TRY(take_span(reader, &step->reduce.dst));
      COLL_TRY(expect(reader, "<-"));
      return take_sources(reader, step);
    case PLAN_SEND:
      COLL_TRY(take_channel(reader, &step->send.peer, &step->send.channel));
      COLL_TRY(expect(reader, "<-"));
      return take_span(reader, &step->send.src);
    case PLAN_RECV:
      COLL_TRY(take_channel(reader, &step->recv.peer, &step->recv.channel));
      COLL_TRY(expect(reader, "->"));
      return take_span(reader, &step->recv.dst);
    case PLAN_SIGNAL: return take_peer(reader, &step->signal.peer);
    case PLAN_WAIT: return take_peer(reader, &step->wait.peer);
    case PLAN_AFTER:
      COLL_TRY(take_number(reader, "a lane", 0, PLAN_LANES_MAX - 1, &step->after.lane));
      COLL_TRY(expect(reader, ":"));
      return take_number(reader, "a step", 0, INT32_MAX, &step->after.step);
    case PLAN_STEP_KIND_COUNT: break;
  }
  return COLL_OK;
}

static coll_status_t append(reader_t *reader, const plan_step_t *step) {
  plan_lane_t *lane = &reader->plan->programs[reader->rank].lanes[reader->lane];
  COLL_TRY(base_grow((void **)&lane->steps, &lane->capacity, lane->count + 1, sizeof *step,
                     "plan steps"));
  COLL_TRY(base_grow((void **)&reader->lines[reader->lane].numbers,
                     &reader->lines[reader->lane].capacity, lane->count + 1, sizeof(int),
                     "line numbers"));
  reader->lines[reader->lane].numbers[lane->count] = reader->number;
  lane->steps[lane->count++] = *step;
  return COLL_OK;
}

static coll_status_t read_step(reader_t *reader, const char *word) {
  int kind = 0;
  const char *start = reader->word;
  while (kind < PLAN_STEP_KIND_COUNT &&
         strcmp(plan_step_kind_name((plan_step_kind_t)kind), word) != 0) {
    kind++;
  }
  if (kind == PLAN_STEP_KIND_COUNT) {
    return expected(reader, "a step, 'rank', 'lane' or 'end'", start);
  }
  if (reader->rank < 0) return refuse(reader, "a step before the first 'rank' line");
  plan_step_t step;
  memset(&step, 0, sizeof step);
  step.kind = (plan_step_kind_t)kind;
  COLL_TRY(take_operands(reader, &step));
  COLL_TRY(expect_end_of_line(reader));
  return append(reader, &step);
}

/* ---- programs ---- */

/* Checks the complete program of the current rank. An error names the line of the step. */
static coll_status_t check_rank(reader_t *reader) {
  if (reader->rank < 0) return COLL_OK;
  const plan_program_t *program = &reader->plan->programs[reader->rank];
  for (int lane = 0; lane < reader->plan->lanes; lane++) {
    for (size_t step = 0; step < program->lanes[lane].count; step++) {
      if (plan_check_step(reader->plan, reader->rank, lane, step) == COLL_OK) continue;
      reader->number = reader->lines[lane].numbers[step];
      return refuse(reader, "%s", base_last_error());
    }
  }
  return plan_check_program(reader->plan, reader->rank);
}

static coll_status_t start_rank(reader_t *reader) {
  int32_t rank = 0;
  COLL_TRY(check_rank(reader));
  COLL_TRY(take_peer(reader, &rank));
  if (rank <= reader->rank) {
    return refuse(reader, "rank %d after rank %d: ranks come once, in ascending order", rank,
                  reader->rank);
  }
  reader->rank = rank;
  reader->lane = 0;
  if (accept(reader, "in-place")) reader->plan->programs[rank].in_place = true;
  return expect_end_of_line(reader);
}

static coll_status_t start_lane(reader_t *reader) {
  if (reader->rank < 0) return refuse(reader, "a lane before the first 'rank' line");
  COLL_TRY(take_number(reader, "a lane", 0, reader->plan->lanes - 1, &reader->lane));
  return expect_end_of_line(reader);
}

static coll_status_t finish(reader_t *reader) {
  COLL_TRY(check_rank(reader));
  COLL_TRY(expect_end_of_line(reader));
  COLL_TRY(next_line(reader));
  return reader->ended ? COLL_OK : expected(reader, "nothing after 'end'", reader->at);
}

static coll_status_t read_plan(reader_t *reader) {
  char word[PLAN_NAME_BYTES];
  COLL_TRY(read_title(reader));
  for (;;) {
    COLL_TRY(next_line(reader));
    if (reader->ended) return refuse(reader, "the file ends without 'end': it was cut short");
    take_word(reader, word);
    bool is_header = false;
    if (reader->plan == NULL) {
      COLL_TRY(read_field(reader, word, &is_header));
      if (is_header) continue;
      COLL_TRY(make_plan(reader));
    }
    if (strcmp(word, "end") == 0) return finish(reader);
    if (strcmp(word, "rank") == 0) {
      COLL_TRY(start_rank(reader));
    } else if (strcmp(word, "lane") == 0) {
      COLL_TRY(start_lane(reader));
    } else {
      COLL_TRY(read_step(reader, word));
    }
  }
}

coll_status_t plan_text_read(FILE *in, const char *file_name, plan_t **plan) {
  reader_t reader = {.in = in, .file_name = file_name, .rank = -1};
  coll_status_t status = read_plan(&reader);
  free(reader.line);
  for (int lane = 0; lane < PLAN_LANES_MAX; lane++) free(reader.lines[lane].numbers);
  if (status != COLL_OK) {
    plan_free(reader.plan);
    return status;
  }
  *plan = reader.plan;
  return COLL_OK;
}
