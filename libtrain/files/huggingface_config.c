/* Rejects every config field that would change the computation, since ignoring one would load a
 * wrong model without an error. */
#include "libtrain/files/huggingface_config.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define GPT2_VOCABULARY 50257
#define BYTE_VOCABULARY 256
#define EPSILON 1e-5 /* of the layernorms */

static coll_status_t load(const char *path, json_t **root) {
  char *text;
  size_t count;
  json_error_t error;
  COLL_TRY(train_input_read_all(path, CONFIG_BYTES_MAX, &text, &count));
  json_t *loaded = json_loadb(text, count, 0, &error);
  free(text);
  if (!json_is_object(loaded)) {
    json_decref(loaded);
    return base_fail(COLL_ERROR_INVALID, "%s is not a JSON object: %s", path, error.text);
  }
  *root = loaded;
  return COLL_OK;
}

static bool is_gpt2(json_t *root) {
  const char *type = json_string_value(json_object_get(root, "model_type"));
  return type != NULL && strcmp(type, "gpt2") == 0;
}

coll_status_t train_huggingface_config_check_replaceable(const char *path) {
  json_t *root = NULL;
  if (access(path, F_OK) != 0) return COLL_OK;
  bool is_model_config = load(path, &root) == COLL_OK;
  if (is_model_config) {
    is_model_config = is_gpt2(root);
    json_decref(root);
  }
  if (is_model_config) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%s exists and does not describe a GPT-2: write the model to another folder",
                   path);
}

/* ---- reading ---- */

static coll_status_t size_of(const char *path, json_t *root, const char *name, const char *or_name,
                             int32_t *size) {
  json_t *value = json_object_get(root, name);
  if (value == NULL && or_name != NULL) value = json_object_get(root, or_name);
  json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < 1 || number > INT32_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%s: %s is missing or invalid", path, name);
  }
  *size = (int32_t)number;
  return COLL_OK;
}

static bool is_tanh_gelu(json_t *value) {
  const char *name = json_string_value(value);
  return name != NULL && (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0);
}

/* These fields may be missing, because transformers' defaults match this model, but not differ. */
static coll_status_t check_architecture(const char *path, json_t *root,
                                        const train_model_config_t *config) {
  json_t *activation = json_object_get(root, "activation_function");
  json_t *epsilon = json_object_get(root, "layer_norm_epsilon");
  json_t *inner = json_object_get(root, "n_inner");
  const char *wrong = NULL;
  if (activation != NULL && !is_tanh_gelu(activation)) wrong = "activation_function";
  if (epsilon != NULL && !(fabs(json_number_value(epsilon) - EPSILON) < 1e-3 * EPSILON)) {
    wrong = "layer_norm_epsilon";
  }
  if (inner != NULL && !json_is_null(inner) &&
      json_integer_value(inner) != 4 * (json_int_t)config->width) {
    wrong = "n_inner";
  }
  static const struct {
    const char *name;
    bool value;
  } flags[] = {{"tie_word_embeddings", true},
               {"scale_attn_weights", true},
               {"scale_attn_by_inverse_layer_idx", false},
               {"add_cross_attention", false}};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    json_t *value = json_object_get(root, flags[i].name);
    if (value != NULL && !json_is_null(value) && json_is_true(value) != flags[i].value) {
      wrong = flags[i].name;
    }
  }
  if (wrong == NULL) return COLL_OK;
  char *value = json_dumps(json_object_get(root, wrong), JSON_ENCODE_ANY | JSON_COMPACT);
  coll_status_t status = base_fail(COLL_ERROR_INVALID, "%s: a GPT-2 with %s %.64s is not supported",
                                   path, wrong, value != NULL ? value : "");
  free(value);
  return status;
}

static coll_status_t parse(const char *path, json_t *root, train_model_config_t *config) {
  if (!is_gpt2(root)) {
    return base_fail(COLL_ERROR_INVALID, "%s does not describe a GPT-2: its model_type is not gpt2",
                     path);
  }
  COLL_TRY(size_of(path, root, "vocab_size", NULL, &config->vocabulary));
  COLL_TRY(size_of(path, root, "n_positions", "n_ctx", &config->context));
  COLL_TRY(size_of(path, root, "n_layer", NULL, &config->layers));
  COLL_TRY(size_of(path, root, "n_head", NULL, &config->heads));
  COLL_TRY(size_of(path, root, "n_embd", NULL, &config->width));
  if (train_model_config_check(config) != COLL_OK) {
    return base_fail(COLL_ERROR_INVALID, "%s cannot be used: %s", path, base_last_error());
  }
  return check_architecture(path, root, config);
}

coll_status_t train_huggingface_config_read(const char *path, train_model_config_t *config) {
  json_t *root = NULL;
  train_model_config_t read = {0};
  COLL_TRY(load(path, &root));
  coll_status_t status = parse(path, root, &read);
  json_decref(root);
  if (status == COLL_OK) *config = read;
  return status;
}

/* ---- writing ---- */

/* The id of "<|endoftext|>" in tokenizer.json; -1 if it is missing. */
static json_int_t end_of_text(const char *tokenizer, size_t count) {
  json_int_t id = -1;
  size_t i;
  json_t *token, *root = json_loadb(tokenizer, count, 0, NULL);
  json_array_foreach(json_object_get(root, "added_tokens"), i, token) {
    const char *content = json_string_value(json_object_get(token, "content"));
    json_t *number = json_object_get(token, "id");
    if (content != NULL && strcmp(content, "<|endoftext|>") == 0 && json_is_integer(number)) {
      id = json_integer_value(number);
    }
  }
  json_decref(root);
  return id;
}

static json_t *end_token(const train_metadata_t *metadata) {
  int32_t vocabulary = metadata->config.vocabulary;
  if (metadata->tokenizer != NULL) {
    json_int_t id = end_of_text(metadata->tokenizer, metadata->tokenizer_bytes);
    if (id >= 0) return json_integer(id);
  }
  if (vocabulary == BYTE_VOCABULARY) return json_integer(0);
  return vocabulary == GPT2_VOCABULARY ? json_integer(vocabulary - 1) : json_null();
}

coll_status_t train_huggingface_config_write(const train_metadata_t *metadata, train_dtype_t dtype,
                                             train_output_t *output) {
  const train_model_config_t *config = &metadata->config;
  json_t *end = end_token(metadata);
  json_t *root = json_pack(
      "{s:[s], s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:i, s:i, s:n, s:i, s:b, s:b, "
      "s:s, s:O, s:o}",
      "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
      "layer_norm_epsilon", EPSILON, "initializer_range", 0.02, "attn_pdrop", 0.0, "embd_pdrop",
      0.0, "resid_pdrop", 0.0, "n_ctx", config->context, "n_embd", config->width, "n_head",
      config->heads, "n_layer", config->layers, "n_positions", config->context, "n_inner",
      "vocab_size", config->vocabulary, "tie_word_embeddings", 1, "use_cache", 1, "torch_dtype",
      train_dtype_name(dtype), "bos_token_id", end, "eos_token_id", end);
  char *text = root != NULL ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(root);
  if (text == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for config.json");
  train_output_write(output, text, strlen(text));
  train_output_write(output, "\n", 1);
  free(text);
  return COLL_OK;
}
