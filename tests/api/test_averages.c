/*
 * Averages of floats at both ends of their ranges: near the largest number no sum may overflow, and
 * near the smallest no operand may be lost. The mean is computed here in long double.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/reference.h"
#include "harness/party.h"
#include "verify/random.h"

enum { EQUAL = 8, MIXED = 24, COUNT = EQUAL + MIXED, REPEATS = 4 };

static const coll_dtype_t floats[] = {COLL_FLOAT16,     COLL_BFLOAT16, COLL_FLOAT8_E4M3,
                                      COLL_FLOAT8_E5M2, COLL_FLOAT32,  COLL_FLOAT64};
enum { FLOATS = sizeof floats / sizeof *floats };

/* What a type can hold. */
typedef struct range {
  double max, least_normal, least; /* least: the smallest subnormal number */
  double epsilon;                  /* distance of 1 to the next number */
} range_t;

static range_t range_of(coll_dtype_t dtype) {
  switch (dtype) {
    case COLL_FLOAT16: return (range_t){65504, 0x1p-14, 0x1p-24, 0x1p-10};
    case COLL_BFLOAT16: return (range_t){0x1.fep127, 0x1p-126, 0x1p-133, 0x1p-7};
    case COLL_FLOAT8_E4M3: return (range_t){448, 0x1p-6, 0x1p-9, 0x1p-3};
    case COLL_FLOAT8_E5M2: return (range_t){57344, 0x1p-14, 0x1p-16, 0x1p-2};
    case COLL_FLOAT32: return (range_t){0x1.fffffep127, 0x1p-126, 0x1p-149, 0x1p-23};
    default: return (range_t){0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074, 0x1p-52};
  }
}

/* ---- operands -------------------------------------------------------------------------------*/

/* Of all ranks the same, or around an end of the range. */
static double operand(const range_t *range, int rank, int index) {
  const double equal[EQUAL] = {
      range->max, -range->max, range->max / 2, 1, range->least_normal, 1.5, -2, 0};
  uint64_t random = random_mix((uint64_t)(1000 * rank + index));
  double sign = random_below(&random, 2) == 0 ? -1 : 1;
  if (index < EQUAL) return equal[index];
  switch (index % 6) {
    case 0: return sign * range->max;
    case 1: return rank % 2 == 0 ? range->max : -range->max;
    case 2: return rank == 0 ? range->max : 0;
    case 3: return sign * range->least * random_below(&random, 20);
    case 4: return range->least * (17 + random_below(&random, 5)); /* float16: about 1e-6 */
    default: return sign * range->least_normal * (1 + random_below(&random, 4));
  }
}

/* As it is stored. */
static double stored(coll_dtype_t dtype, int rank, int index) {
  const range_t range = range_of(dtype);
  uint64_t bits[1] = {0};
  reference_encode(dtype, operand(&range, rank, index), bits, 0);
  return reference_decode(dtype, bits, 0);
}

/* ---- what may come out ----------------------------------------------------------------------*/

/* Narrow floats are rounded once. Others are rounded by each sum, and where operands are subnormal
 * once their weight is applied. */
static long double error_max(coll_dtype_t dtype, int size, long double mean, long double sum) {
  const range_t range = range_of(dtype);
  long double ulp = fabsl(mean) * (long double)range.epsilon;
  if (ulp < (long double)range.least) ulp = (long double)range.least;
  if (reference_is_narrow(dtype)) return ulp * 0.5001L;
  return (long double)range.epsilon * sum + (long double)(2 * size) * (long double)range.least;
}

static int check(const party_rank_t *self, coll_dtype_t dtype, const void *output, size_t at,
                 int index, const char *what) {
  long double sum = 0, magnitudes = 0, got = (long double)reference_decode(dtype, output, at);
  for (int rank = 0; rank < self->size; rank++) {
    long double value = (long double)stored(dtype, rank, index);
    sum += value;
    magnitudes += fabsl(value);
  }
  long double mean = sum / self->size;
  PARTY_REQUIRE(fabsl(got - mean) <= error_max(dtype, self->size, mean, magnitudes),
                "%s of %s by %d ranks, element %d: %Lg, not %Lg", what, coll_dtype_name(dtype),
                self->size, index, got, mean);
  PARTY_REQUIRE(index >= EQUAL || got == mean,
                "%s of %s by %d ranks: equal operands give %Lg, not "
                "%Lg",
                what, coll_dtype_name(dtype), self->size, got, mean);
  return 0;
}

/* ---- calls ----------------------------------------------------------------------------------*/

typedef struct call {
  coll_collective_t collective;
  coll_dtype_t dtype;
  bool in_place;
  const char *algo; /* NULL: the library's choice */
} call_t;

static bool scatters(const call_t *call) {
  return call->collective == COLL_REDUCE_SCATTER || call->collective == COLL_REDUCE_SCATTERV;
}

static size_t input_blocks(const party_rank_t *self, const call_t *call) {
  return scatters(call) ? (size_t)self->size : 1;
}

/* Of reduce_scatterv, rank 0's block is longer than the others'. */
static size_t extra_elements(const call_t *call) {
  return call->collective == COLL_REDUCE_SCATTERV ? COUNT : 0;
}

static coll_status_t make(party_rank_t *self, const call_t *call, const void *input, void *output,
                          size_t count) {
  coll_dtype_t dtype = call->dtype;
  switch (call->collective) {
    case COLL_ALLREDUCE:
      return coll_allreduce(input, output, count, dtype, COLL_AVG, self->comm, NULL);
    case COLL_REDUCE:
      return coll_reduce(input, output, count, dtype, COLL_AVG, self->size - 1, self->comm, NULL);
    case COLL_REDUCE_SCATTERV: {
      size_t counts[QUESTION_RANKS_MAX];
      for (int r = 0; r < self->size; r++) counts[r] = count + (r == 0 ? extra_elements(call) : 0);
      return coll_reduce_scatterv(input, output, counts, dtype, COLL_AVG, self->comm, NULL);
    }
    default: return coll_reduce_scatter(input, output, count, dtype, COLL_AVG, self->comm, NULL);
  }
}

static int run(party_rank_t *self, const call_t *call) {
  size_t bytes = coll_dtype_bytes(call->dtype), count = (size_t)COUNT * REPEATS;
  size_t blocks = input_blocks(self, call), extra = extra_elements(call);
  char *input = malloc((blocks * count + extra) * bytes), *output = malloc((count + extra) * bytes);
  if (input == NULL || output == NULL) return harness_fail("no memory");
  for (size_t i = 0; i < blocks * count + extra; i++) {
    reference_encode(call->dtype, stored(call->dtype, self->rank, (int)(i % COUNT)), input, i);
  }
  char *result = output;
  if (call->in_place) {
    result = blocks > 1 ? input + (size_t)self->rank * count * bytes : input;
    if (self->rank > 0) result += extra * bytes;
  }
  PARTY_OK(coll_comm_algo_set(self->comm, call->collective, call->algo));
  PARTY_OK(make(self, call, input, result, count));
  bool has_result = call->collective != COLL_REDUCE || self->rank == self->size - 1;
  for (size_t i = 0; i < count && has_result; i += i < COUNT ? 1 : COUNT - 1) {
    const char *what = call->algo != NULL ? call->algo : "the library's choice";
    PARTY_TRY(check(self, call->dtype, result, i, (int)(i % COUNT), what));
  }
  free(input);
  free(output);
  return 0;
}

static const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER,
                                                COLL_REDUCE_SCATTERV};

static int choose_all(party_rank_t *self) {
  for (int c = 0; c < 4; c++) {
    for (int i = 0; i < FLOATS; i++) {
      PARTY_TRY(run(self, &(call_t){.collective = collectives[c], .dtype = floats[i]}));
    }
  }
  return 0;
}

/* The algorithms take turns at the dtypes. */
static int force_all(party_rank_t *self) {
  for (int c = 0; c < 4; c++) {
    call_t call = {.collective = collectives[c]};
    for (int i = 0; (call.algo = coll_algo_name(call.collective, i)) != NULL; i++) {
      call.in_place = i % 2 == 0;
      for (int k = 0; k < FLOATS; k++) {
        call.dtype = floats[k];
        if (harness_full() || (i + self->size) % FLOATS == k) PARTY_TRY(run(self, &call));
      }
    }
  }
  return 0;
}

Test(averages, keep_the_range_of_every_float) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, 60000, choose_all, NULL);
}

Test(averages, keep_it_with_every_algorithm) {
  for (int size = 2; size <= 4; size++) PARTY_RUN(size, 60000, force_all, NULL);
}

Test(averages, on_reproducible_communicators_keep_it) {
  setenv("COLL_REPRODUCIBLE", "1", 1);
  PARTY_RUN(3, 30000, choose_all, NULL);
}

/* So many that sums of float16 overflow, and its shares of an operand are lost. */
static int average_many(party_rank_t *self) {
  return run(self, &(call_t){.collective = COLL_ALLREDUCE, .dtype = COLL_FLOAT16}) ||
         run(self, &(call_t){.collective = COLL_REDUCE_SCATTER, .dtype = COLL_FLOAT8_E4M3});
}

Test(averages, of_many_ranks_keep_it) {
  harness_result_t result;
  int size = HARNESS_BUILD == HARNESS_PLAIN ? HARNESS_RANKS_MAX : 10;
  cr_assert(party_threads(size, 60000, average_many, NULL, &result), "%s", result.text);
}
