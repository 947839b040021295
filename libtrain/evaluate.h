/* Evaluation: the loss of a model on held-out data. */
#ifndef LIBTRAIN_EVALUATE_H
#define LIBTRAIN_EVALUATE_H

#include "libtrain/data/dataset.h"
#include "libtrain/parallel/ranks.h"

typedef struct train_evaluation {
  double loss; /* nats per token */
  uint64_t tokens;
  uint64_t bytes; /* of text that the tokens represent; 0 without a tokenizer */
} train_evaluation_t;

/* What computes a loss: sets *loss to this rank's part of that of tokens[count, context], of which
 * the sum over all ranks is the loss in nats; 1 <= count <= sequences. */
typedef struct train_loss {
  int sequences, context;
  coll_status_t (*compute)(void *computer, const int32_t *tokens, const int32_t *targets, int count,
                           double *loss);
  void *computer;
} train_loss_t;

/* Computes the mean loss over about `tokens` tokens, evenly distributed over the dataset.
 * Collective; all ranks run the same number of passes. The tokenizer may be NULL. */
coll_status_t train_evaluate(const train_dataset_t *dataset, const train_tokenizer_t *tokenizer,
                             uint64_t tokens, const train_ranks_t *ranks, const train_loss_t *loss,
                             train_evaluation_t *evaluation);

#endif
