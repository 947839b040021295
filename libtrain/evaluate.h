/* How well a model predicts text that it was not trained on. */
#ifndef LIBTRAIN_EVALUATE_H
#define LIBTRAIN_EVALUATE_H

#include "libtrain/data/dataset.h"
#include "libtrain/model/model.h"
#include "libtrain/parallel/group.h"

typedef struct train_evaluation {
  double loss; /* nats per token */
  uint64_t tokens;
  uint64_t bytes; /* of text that the tokens stand for; 0 without a tokenizer */
} train_evaluation_t;

/* The mean loss over about `tokens` tokens of the dataset, spread evenly over it: a collective, in
 * which every rank makes as many passes. The tokenizer may be NULL. */
coll_status_t train_evaluate(const train_dataset_t *dataset, const train_tokenizer_t *tokenizer,
                             uint64_t tokens, const train_group_t *group, train_model_t *model,
                             const train_param_provider_t *provider,
                             train_evaluation_t *evaluation);

#endif
