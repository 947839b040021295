/* Evaluation: the loss of a model on held-out data. */
#ifndef LIBTRAIN_EVALUATE_H
#define LIBTRAIN_EVALUATE_H

#include "libtrain/data/dataset.h"
#include "libtrain/model/model.h"
#include "libtrain/parallel/group.h"

typedef struct train_evaluation {
  double loss; /* nats per token */
  uint64_t tokens;
  uint64_t bytes; /* of text that the tokens represent; 0 without a tokenizer */
} train_evaluation_t;

/* Computes the mean loss over about `tokens` tokens, evenly distributed over the dataset.
 * Collective; all ranks run the same number of passes. The tokenizer may be NULL. */
coll_status_t train_evaluate(const train_dataset_t *dataset, const train_tokenizer_t *tokenizer,
                             uint64_t tokens, const train_group_t *group, train_model_t *model,
                             const train_param_provider_t *provider,
                             train_evaluation_t *evaluation);

#endif
