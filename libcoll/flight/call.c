/* Packing, unpacking and describing a call's identity. */
#include "flight/call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/names.h"

_Static_assert(FLIGHT_ROOT_SHIFT + FLIGHT_ROOT_BITS == FLIGHT_NUMBER_SHIFT,
               "fields do not overlap");
_Static_assert(FLIGHT_NUMBER_SHIFT + FLIGHT_NUMBER_BITS == 64, "and fill the word");

flight_call_t flight_call_make(const flight_words_t *words) {
  assert((unsigned)words->verb < FLIGHT_VERB_COUNT && (unsigned)words->op <= FLIGHT_OP_NONE);
  assert((unsigned)words->algo <= FLIGHT_ALGO_MAX);
  assert(words->root >= 0 && words->root < 1 << FLIGHT_ROOT_BITS);
  uint64_t what =
      (uint64_t)words->root << FLIGHT_ROOT_SHIFT | (uint64_t)words->verb << FLIGHT_VERB_SHIFT |
      (uint64_t)words->dtype << FLIGHT_DTYPE_SHIFT | (uint64_t)words->op << FLIGHT_OP_SHIFT |
      (uint64_t)words->algo << FLIGHT_ALGO_SHIFT | (uint64_t)words->on_gpu << FLIGHT_GPU_SHIFT |
      (uint64_t)words->continues << FLIGHT_CONTINUES_SHIFT |
      (uint64_t)words->coalesced << FLIGHT_COALESCED_SHIFT;
  return (flight_call_t){.what = what, .count = words->count};
}

flight_words_t flight_call_words(flight_call_t call) {
  uint64_t what = call.what;
  return (flight_words_t){
      .verb = (int)(what >> FLIGHT_VERB_SHIFT & 0x1f),
      .dtype = (coll_dtype_t)(what >> FLIGHT_DTYPE_SHIFT & 0xf),
      .op = (int)(what >> FLIGHT_OP_SHIFT & 0xf),
      .root = (int)(what >> FLIGHT_ROOT_SHIFT & ((1u << FLIGHT_ROOT_BITS) - 1)),
      .count = call.count,
      .algo = (int)(what >> FLIGHT_ALGO_SHIFT & FLIGHT_ALGO_MAX),
      .continues = what >> FLIGHT_CONTINUES_SHIFT & 1,
      .coalesced = what >> FLIGHT_COALESCED_SHIFT & 1,
      .on_gpu = what >> FLIGHT_GPU_SHIFT & 1,
  };
}

/* ---- counts of allgatherv and reduce_scatterv
 * ----------------------------------------------------------*/

enum { SUM_BITS = 40, DIGEST_BITS_OF_COUNT = 16 };

void flight_words_set_counts(flight_words_t *words, const size_t counts[], size_t equal,
                             int ranks) {
  uint64_t sum = 0, digest = 0;
  for (int rank = 0; rank < ranks; rank++) {
    uint64_t count = counts != NULL ? counts[rank] : equal;
    sum += count;
    digest = flight_history_add(digest, (flight_call_t){.count = count});
  }
  uint64_t high = digest >> FLIGHT_ROOT_BITS & ((UINT64_C(1) << DIGEST_BITS_OF_COUNT) - 1);
  words->count = (sum & ((UINT64_C(1) << SUM_BITS) - 1)) | high << SUM_BITS;
  words->root = (int)(digest & ((1u << FLIGHT_ROOT_BITS) - 1));
}

static uint64_t counts_digest_of(const flight_words_t *words) {
  return words->count >> SUM_BITS << FLIGHT_ROOT_BITS | (unsigned)words->root;
}

static uint64_t counts_sum_of(const flight_words_t *words) {
  return words->count & ((UINT64_C(1) << SUM_BITS) - 1);
}

/* ---- text ------------------------------------------------------------------------------------*/

/* A text that is appended to, and truncated if it does not fit. */
typedef struct line {
  char *text;
  size_t bytes, used;
} line_t;

__attribute__((format(printf, 2, 3))) static void add(line_t *line, const char *format, ...) {
  va_list arguments;
  if (line->used + 1 >= line->bytes) return;
  va_start(arguments, format);
  int written = vsnprintf(line->text + line->used, line->bytes - line->used, format, arguments);
  va_end(arguments);
  if (written > 0) line->used += (size_t)written;
}

static const char *or_unknown(const char *name) {
  return name != NULL ? name : "?";
}

static const char *verb_name(int verb) {
  switch (verb) {
    case FLIGHT_SPLIT: return "split";
    case FLIGHT_PLAN_LOAD: return "plan_load";
    case FLIGHT_WINDOW: return "window_create";
    case FLIGHT_GPU_GROUP: return "sends and receives";
    case FLIGHT_GPU_CONNECT: return "the first call on GPUs";
    case FLIGHT_SEND: return "send";
    case FLIGHT_RECV: return "recv";
    case COLL_SENDRECV: return "send/recv";
    default: return or_unknown(base_collective_name((coll_collective_t)verb));
  }
}

/* No call has so many elements: the count was found by a rank with another history, and means
 * nothing. */
#define COUNT_UNKNOWN (SIZE_MAX >> 8)

static void add_arguments(line_t *line, const flight_words_t *words) {
  if (words->verb == COLL_BARRIER || words->verb == FLIGHT_SPLIT) return;
  if (words->verb > FLIGHT_SPLIT && words->verb < FLIGHT_SEND) return;
  add(line, "%s", or_unknown(base_dtype_name(words->dtype)));
  if (words->op == FLIGHT_OP_PREMUL) {
    add(line, ", premul_sum");
  } else if (words->op != FLIGHT_OP_NONE) {
    add(line, ", %s", or_unknown(base_op_name((coll_op_t)words->op)));
  }
  if (words->coalesced) return; /* a coalesced call's count is a digest */
  if (words->verb < COLL_COLLECTIVE_COUNT &&
      base_collective_counts_by_rank((coll_collective_t)words->verb)) {
    if (words->count >= COUNT_UNKNOWN) return;
    add(line, ", %" PRIu64 " elements, counts #%" PRIx64, counts_sum_of(words),
        counts_digest_of(words));
    return;
  }
  bool counted =
      !base_collective_counts_by_pair((coll_collective_t)words->verb) || words->count > 0;
  if (counted && words->count < COUNT_UNKNOWN) add(line, ", count %zu", words->count);
  if (words->verb == FLIGHT_SEND) add(line, ", to rank %d", words->root);
  if (words->verb == FLIGHT_RECV) add(line, ", from rank %d", words->root);
  if (words->verb >= COLL_COLLECTIVE_COUNT) return;
  if (base_collective_is_rooted((coll_collective_t)words->verb)) {
    add(line, ", root %d", words->root);
  }
}

void flight_call_describe(flight_call_t call, const char *algo, char *text, size_t bytes) {
  const flight_words_t words = flight_call_words(call);
  line_t line = {.text = text, .bytes = bytes};
  text[0] = '\0';
  add(&line, "%s(", verb_name(words.verb));
  add_arguments(&line, &words);
  add(&line, ")");
  if (algo != NULL) {
    add(&line, " forced to %s", algo);
  } else if (words.algo > 0) {
    add(&line, " forced to algorithm %d", words.algo - 1);
  }
  if (words.on_gpu) add(&line, " on GPUs");
  if (words.coalesced) add(&line, " coalesced with others of its group");
  if (words.continues) add(&line, ", not the last of its group");
}

#define RULE "all ranks must make the same calls in the same order"

coll_status_t flight_mismatch(const flight_seen_t *one, const flight_seen_t *other) {
  char first[FLIGHT_TEXT_BYTES], second[FLIGHT_TEXT_BYTES];
  flight_call_describe(one->call, one->algo, first, sizeof first);
  flight_call_describe(other->call, other->algo, second, sizeof second);
  if (one->number == other->number) {
    return base_fail(COLL_ERROR_MISMATCH,
                     "call %llu: rank %d is in %s, but rank %d is in %s; " RULE,
                     (unsigned long long)one->number, one->rank, first, other->rank, second);
  }
  return base_fail(COLL_ERROR_MISMATCH,
                   "rank %d is in call %llu, %s, but rank %d is in call %llu, %s; " RULE, one->rank,
                   (unsigned long long)one->number, first, other->rank,
                   (unsigned long long)other->number, second);
}
