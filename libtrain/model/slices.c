/* Lengths of slices, and what they cannot be combined with. */
#include "libtrain/model/slices.h"

int train_slices_length(const train_slices_t *slices, int slice, int length) {
  return train_slices_are_cut(slices) ? slices->lengths[slice] : length;
}

int train_slices_longest(const train_slices_t *slices, int length) {
  int longest = 0;
  if (!train_slices_are_cut(slices)) return length;
  for (int i = 0; i < slices->count; i++) {
    if (slices->lengths[i] > longest) longest = slices->lengths[i];
  }
  return longest;
}

int train_slices_first(const train_slices_t *slices, int slice) {
  int first = 0;
  for (int i = 0; i < slice; i++) first += slices->lengths[i];
  return first;
}

static coll_status_t check_lengths(const train_slices_t *slices, int context, int unit) {
  int sum = 0;
  for (int i = 0; i < slices->count; i++) {
    int length = slices->lengths[i];
    if (length < 1 || length > context) {
      return base_fail(COLL_ERROR_INVALID, "slice %d has %d tokens: give 1 to %d", i, length,
                       context);
    }
    if (length % unit != 0) {
      return base_fail(COLL_ERROR_INVALID,
                       "slice %d has %d tokens, which sequence parallelism cannot divide over --tp "
                       "%d: give multiples of %d, or leave out --sp",
                       i, length, unit, unit);
    }
    sum += length;
  }
  if (sum == context) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "slices of %d tokens in all do not cut a sequence of %d: change the last one by "
                   "%+d",
                   sum, context, context - sum);
}

coll_status_t train_slices_check(const train_slices_t *slices, const train_model_config_t *config,
                                 int tensor_ranks, bool sequence_parallel, int context_ranks) {
  if (!train_slices_are_cut(slices)) return COLL_OK;
  if (slices->count > TRAIN_SLICES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%d slices of a sequence: give at most %d", slices->count,
                     TRAIN_SLICES_MAX);
  }
  if (context_ranks > 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "--schedule terapipe computes a sequence slice by slice, --cp %d keeps parts "
                     "of all of it on different ranks: give --cp 1, or --schedule 1f1b",
                     context_ranks);
  }
  if (config->experts > 0) {
    return base_fail(
        COLL_ERROR_INVALID,
        "capacity and balance loss of --experts %d count the choices of a whole "
        "sequence, but --schedule terapipe computes it slice by slice: give --schedule "
        "1f1b, or leave out --experts",
        (int)config->experts);
  }
  return check_lengths(slices, config->context, sequence_parallel ? tensor_ranks : 1);
}
