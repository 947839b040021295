/* tokenizer.json files. What is accepted encodes a text and decodes it to itself. */
#include "libtrain/data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "libtrain/data/tokenizer_files.h"

static void encode(train_tokenizer_t *tokenizer) {
  static const char text[] = "Hello, hello world 123\n\xc3\xa9\xff";
  char decoded[sizeof text];
  size_t at = 0;
  train_ids_t ids = {0};
  fuzz_require(train_tokenizer_encode(tokenizer, text, sizeof text, &ids) == COLL_OK,
               "every text can be encoded");
  for (size_t i = 0; i < ids.count; i++) {
    size_t count;
    const uint8_t *bytes = train_tokenizer_decode(tokenizer, ids.ids[i], &count);
    fuzz_require(at + count <= sizeof decoded, "no more bytes are decoded than were encoded");
    if (count > 0) memcpy(decoded + at, bytes, count);
    at += count;
  }
  fuzz_require(at == sizeof text && memcmp(text, decoded, at) == 0, "a text decodes to itself");
  train_ids_free(&ids);
}

static void write_again(const train_tokenizer_t *tokenizer) {
  train_tokenizer_t *copy;
  char *text;
  size_t count;
  fuzz_require(train_tokenizer_to_json(tokenizer, &text, &count) == COLL_OK,
               "an accepted tokenizer can be written");
  fuzz_require(train_tokenizer_from_json("again", text, count, &copy) == COLL_OK,
               "a written tokenizer is accepted");
  fuzz_require(copy->digest == tokenizer->digest, "it is the same tokenizer");
  train_tokenizer_destroy(copy);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  train_tokenizer_t *tokenizer;
  if (train_tokenizer_from_json("input", (const char *)data, bytes, &tokenizer) != COLL_OK)
    return 0;
  encode(tokenizer);
  write_again(tokenizer);
  train_tokenizer_destroy(tokenizer);
  return 0;
}
