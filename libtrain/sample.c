/* The model reads the last `context` bytes anew for every byte it writes; models are small. */
#include "libtrain/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "libtrain/data.h"
#include "libtrain/random.h"

static int likeliest(const float *logits) {
  int best = 0;
  for (int i = 1; i < TRAIN_BYTE_VOCABULARY; i++) best = logits[i] > logits[best] ? i : best;
  return best;
}

/* The class at which the running sum of the softmax passes `unit`, in [0, 1). */
static int draw(const float *logits, double temperature, double unit) {
  double most = (double)logits[likeliest(logits)], sum = 0, passed = 0;
  double weights[TRAIN_BYTE_VOCABULARY];
  for (int i = 0; i < TRAIN_BYTE_VOCABULARY; i++) {
    weights[i] = exp(((double)logits[i] - most) / temperature);
    sum += weights[i];
  }
  for (int i = 0; i < TRAIN_BYTE_VOCABULARY; i++) {
    passed += weights[i];
    if (unit * sum < passed) return i;
  }
  return likeliest(logits); /* rounding left the last bit of the sum unpassed */
}

coll_status_t train_sample(train_model_t *model, const char *prompt, size_t prompt_bytes,
                           size_t count, double temperature, uint64_t seed,
                           train_sample_sink_t *sink, void *context) {
  const train_model_config_t *config = &model->config;
  if (config->vocabulary != TRAIN_BYTE_VOCABULARY) {
    return base_fail(COLL_ERROR_INVALID, "cannot sample: the model has %d tokens, not %d bytes",
                     config->vocabulary, TRAIN_BYTE_VOCABULARY);
  }
  void *memory;
  size_t total = 1 + prompt_bytes + count, window = (size_t)config->context;
  COLL_TRY(base_alloc(total, sizeof(int32_t), "the text", &memory));
  int32_t *text = memory;
  text[0] = TRAIN_END_OF_FILE; /* of the file before this one */
  for (size_t i = 0; i < prompt_bytes; i++) text[1 + i] = (uint8_t)prompt[i];
  for (size_t at = 1 + prompt_bytes; at < total; at++) {
    size_t length = at < window ? at : window;
    float *logits = train_model_forward(model, text + at - length, 1, (int)length) +
                    (length - 1) * TRAIN_BYTE_VOCABULARY;
    double unit = train_random_unit(seed, TRAIN_RANDOM_SAMPLING, at);
    text[at] = temperature > 0 ? draw(logits, temperature, unit) : likeliest(logits);
    sink(context, (uint8_t)text[at]);
  }
  free(memory);
  return COLL_OK;
}
