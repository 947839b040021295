/* Each share of the ranks evaluates different windows; the results are summed. */
#include "libtrain/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Values summed over windows and ranks. */
enum { EVALUATED_LOSS, EVALUATED_TOKENS, EVALUATED_BYTES, EVALUATED_SUMS };

typedef struct evaluation {
  const train_dataset_t *dataset;
  const train_tokenizer_t *tokenizer;
  uint64_t windows, stride; /* number of evaluated windows, and the distance between them */
  int context;
} evaluation_t;

static evaluation_t evaluation_of(const train_dataset_t *dataset,
                                  const train_tokenizer_t *tokenizer, uint64_t tokens,
                                  int context) {
  uint64_t length = (uint64_t)context, max_windows = train_dataset_windows(dataset, context);
  uint64_t requested = tokens / length, windows = requested < 1             ? 1
                                                  : requested < max_windows ? requested
                                                                            : max_windows;
  uint64_t span = dataset->count - 1 - length;
  return (evaluation_t){.dataset = dataset,
                        .tokenizer = tokenizer,
                        .windows = windows,
                        .stride = windows > 1 ? span / (windows - 1) : 0,
                        .context = context};
}

/* Bytes of text that the tokens represent; the end-of-document token represents none. */
static double text_bytes(const train_tokenizer_t *tokenizer, const int32_t *tokens, int count) {
  size_t sum = 0;
  for (int i = 0; tokenizer != NULL && i < count; i++) {
    size_t bytes = 0;
    bool is_text = tokens[i] != tokenizer->end && (size_t)tokens[i] < tokenizer->tokens.count;
    if (is_text) train_tokenizer_decode(tokenizer, (uint16_t)tokens[i], &bytes);
    sum += bytes;
  }
  return (double)sum;
}

/* Reads a window. On failure fills it with zeros and sets *failure. */
static void read_window(const evaluation_t *of, uint64_t window, int32_t *tokens, int32_t *targets,
                        coll_status_t *failure) {
  coll_status_t status =
      train_dataset_sequence(of->dataset, window * of->stride, of->context, tokens, targets);
  if (status == COLL_OK) return;
  *failure = status;
  memset(tokens, 0, (size_t)of->context * sizeof *tokens);
  memset(targets, 0, (size_t)of->context * sizeof *targets);
}

/* Evaluates windows share, share + shares, ... All ranks run the same number of passes, because
 * they are collective. A share without further windows evaluates the first one again and ignores
 * the result. A rank that cannot read its data continues with zeros until all ranks agree on the
 * failure. */
static coll_status_t evaluate_local(const evaluation_t *of, const train_ranks_t *ranks,
                                    const train_loss_t *computed, int32_t *tokens,
                                    double sums[EVALUATED_SUMS]) {
  int sequences = computed->sequences, context = of->context;
  coll_status_t failure = COLL_OK;
  int32_t *targets = tokens + (size_t)sequences * (size_t)context;
  uint64_t window = (uint64_t)ranks->share,
           pass_windows = (uint64_t)sequences * (uint64_t)ranks->shares;
  for (uint64_t first = 0; first < of->windows; first += pass_windows) {
    int rows = 0;
    double loss;
    for (; rows < sequences && window < of->windows; rows++, window += (uint64_t)ranks->shares) {
      size_t at = (size_t)rows * (size_t)context;
      read_window(of, window, tokens + at, targets + at, &failure);
    }
    if (rows == 0) read_window(of, 0, tokens, targets, &failure);
    COLL_TRY(computed->compute(computed->computer, tokens, targets, rows > 0 ? rows : 1, &loss));
    sums[EVALUATED_LOSS] += rows > 0 ? loss : 0;
    if (!ranks->leads) continue;
    sums[EVALUATED_TOKENS] += (double)rows * context;
    sums[EVALUATED_BYTES] += text_bytes(of->tokenizer, targets, rows * context);
  }
  return train_group_agree(&ranks->all, failure);
}

coll_status_t train_evaluate(const train_dataset_t *dataset, const train_tokenizer_t *tokenizer,
                             uint64_t tokens, const train_ranks_t *ranks, const train_loss_t *loss,
                             train_evaluation_t *evaluation) {
  size_t positions = (size_t)loss->sequences * (size_t)loss->context;
  const evaluation_t of = evaluation_of(dataset, tokenizer, tokens, loss->context);
  double sums[EVALUATED_SUMS] = {0};
  void *memory = NULL;
  coll_status_t status = base_alloc(2 * positions, sizeof(int32_t), "the evaluation", &memory);
  COLL_TRY(train_group_agree(&ranks->all, status));
  status = evaluate_local(&of, ranks, loss, memory, sums);
  free(memory);
  COLL_TRY(status);
  COLL_TRY(train_group_sum_doubles(&ranks->all, sums, EVALUATED_SUMS));
  *evaluation = (train_evaluation_t){.loss = sums[EVALUATED_LOSS] / sums[EVALUATED_TOKENS],
                                     .tokens = (uint64_t)sums[EVALUATED_TOKENS],
                                     .bytes = (uint64_t)sums[EVALUATED_BYTES]};
  return COLL_OK;
}
