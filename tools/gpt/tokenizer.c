/* gpt tokenizer: trains a tokenizer, encodes text into token shards, and decodes tokens. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/progress.h"
#include "base/text.h"
#include "libtrain/data/bpe.h"
#include "libtrain/data/corpus.h"
#include "libtrain/data/encode.h"
#include "libtrain/data/tokenizer_files.h"
#include "libtrain/data/unicode.h"
#include "libtrain/files/io.h"
#include "tools/gpt/gpt.h"

#define DEFAULT_TOKENIZER "tokenizer.json"
#define DEFAULT_VOCABULARY 8192
#define DEFAULT_SHARD_TOKENS 100000000
#define DEFAULT_DECODED 256

/* ---- common ---- */

static void advance(void *context, double done, double total) {
  base_progress_t *progress = context;
  progress->total = total;
  base_progress_update(progress, done, "");
}

static train_progress_t begin(base_progress_t *progress, const char *label) {
  base_progress_begin(progress, label, 1);
  return (train_progress_t){advance, progress};
}

static void end(base_progress_t *progress) {
  if (progress->shown) base_progress_end(progress, progress->total, "");
}

static double seconds_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-9;
}

/* Checks that an output can be written, before the work starts; `path` may be NULL. */
static coll_status_t probe(const char *path) {
  return path != NULL ? train_output_probe(path) : COLL_OK;
}

/* Writes the object, and releases it, unless `path` is NULL. */
static coll_status_t write_json(const char *path, json_t *record) {
  const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(9);
  int failed = path != NULL ? json_dump_file(record, path, flags) : 0;
  json_decref(record);
  return failed == 0 ? COLL_OK : base_fail_errno(COLL_ERROR_SYSTEM, "cannot write --json %s", path);
}

static json_t *split_object(const train_text_files_t *texts, train_split_t split, uint64_t tokens) {
  return json_pack("{s:I, s:I, s:I}", "files", (json_int_t)texts->files_of[split], "bytes",
                   (json_int_t)texts->bytes_of[split], "tokens", (json_int_t)tokens);
}

static void print_split(const train_text_files_t *texts, train_split_t split, uint64_t tokens) {
  static const char *const names[TRAIN_SPLITS] = {"to train on", "held out"};
  printf("%-12s %8zu files %10.2f MB %10.3f M tokens, %.2f bytes each\n", names[split],
         texts->files_of[split], (double)texts->bytes_of[split] * 1e-6, (double)tokens * 1e-6,
         tokens > 0 ? (double)texts->bytes_of[split] / (double)tokens : 0);
}

/* Prints a token in quotes, with escapes as in C. */
static void print_token(const uint8_t *bytes, size_t count) {
  putchar('"');
  for (size_t at = 0, length; at < count; at += length) {
    train_class_t found;
    length = train_unicode_next(bytes + at, count - at, &found);
    if (bytes[at] == '\n') {
      fputs("\\n", stdout);
    } else if (bytes[at] == '\t') {
      fputs("\\t", stdout);
    } else if (length == 1 && (bytes[at] < ' ' || bytes[at] > '~')) {
      printf("\\x%02x", bytes[at]);
    } else {
      printf(bytes[at] == '"' || bytes[at] == '\\' ? "\\%.*s" : "%.*s", (int)length,
             (const char *)bytes + at);
    }
  }
  putchar('"');
}

/* ---- train ---- */

typedef struct training_options {
  const char *data, *out, *json;
  int64_t vocabulary;
} training_options_t;

/* Held-out text is not used for training the tokenizer. */
static coll_status_t count_words(void *context, const train_text_chunk_t *chunk) {
  if (chunk->split != TRAIN_SPLIT_TRAINING) return COLL_OK;
  return train_word_counts_add(context, chunk->bytes, chunk->count);
}

static coll_status_t train_tokenizer_on(const train_text_files_t *texts, int vocabulary,
                                        train_tokenizer_t **tokenizer) {
  train_word_counts_t counts = {0};
  base_progress_t progress;
  train_progress_t callback = begin(&progress, "words");
  coll_status_t status = train_text_files_read(texts, count_words, &counts, &callback);
  end(&progress);
  if (status == COLL_OK) {
    callback = begin(&progress, "merge");
    status = train_bpe_learn(&counts, vocabulary, &callback, tokenizer);
    end(&progress);
  }
  train_word_counts_free(&counts);
  return status;
}

typedef struct measuring {
  train_tokenizer_t *tokenizer;
  train_ids_t ids;
  uint64_t tokens;
} measuring_t;

static coll_status_t count_tokens(void *context, const train_text_chunk_t *chunk) {
  measuring_t *measuring = context;
  if (chunk->split != TRAIN_SPLIT_HELD_OUT) return COLL_OK;
  measuring->ids.count = 0;
  COLL_TRY(
      train_tokenizer_encode(measuring->tokenizer, chunk->bytes, chunk->count, &measuring->ids));
  measuring->tokens += measuring->ids.count + chunk->is_last;
  return COLL_OK;
}

/* Counts the tokens of the held-out text. */
static coll_status_t measure(const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                             uint64_t *tokens) {
  measuring_t measuring = {.tokenizer = tokenizer};
  base_progress_t progress;
  train_progress_t callback = begin(&progress, "check");
  coll_status_t status = train_text_files_read(texts, count_tokens, &measuring, &callback);
  end(&progress);
  train_ids_free(&measuring.ids);
  *tokens = measuring.tokens;
  return status;
}

static coll_status_t save_trained(const training_options_t *training_options,
                                  const train_text_files_t *texts, train_tokenizer_t *tokenizer,
                                  double seconds) {
  uint64_t tokens;
  size_t vocabulary = tokenizer->tokens.count;
  COLL_TRY(train_tokenizer_save(tokenizer, training_options->out));
  COLL_TRY(measure(texts, tokenizer, &tokens));
  printf("%s: %zu tokens from %.2f MB of text in %zu files, trained in %.1f s\n",
         training_options->out, vocabulary, (double)texts->bytes_of[TRAIN_SPLIT_TRAINING] * 1e-6,
         texts->files_of[TRAIN_SPLIT_TRAINING], seconds);
  if ((int64_t)vocabulary < training_options->vocabulary) {
    printf("the text has no more: no pair of tokens occurs twice\n");
  }
  print_split(texts, TRAIN_SPLIT_HELD_OUT, tokens);
  return write_json(
      training_options->json,
      json_pack("{s:I, s:I, s:f, s:I, s:I, s:o}", "vocabulary", (json_int_t)vocabulary, "merges",
                (json_int_t)tokenizer->merge_count, "seconds", seconds, "files",
                (json_int_t)texts->files_of[TRAIN_SPLIT_TRAINING], "bytes",
                (json_int_t)texts->bytes_of[TRAIN_SPLIT_TRAINING], "held_out",
                split_object(texts, TRAIN_SPLIT_HELD_OUT, tokens)));
}

static coll_status_t run_train(const training_options_t *training_options) {
  train_text_files_t texts;
  train_tokenizer_t *tokenizer;
  uint64_t start_ns = base_clock_now_ns();
  if (train_path_ends_in(training_options->out, ".json")) COLL_TRY(probe(training_options->out));
  COLL_TRY(probe(training_options->json));
  COLL_TRY(train_text_files_list(training_options->data, &texts));
  coll_status_t status = train_tokenizer_on(&texts, (int)training_options->vocabulary, &tokenizer);
  if (status == COLL_OK) {
    status = save_trained(training_options, &texts, tokenizer, seconds_since(start_ns));
    train_tokenizer_destroy(tokenizer);
  }
  train_text_files_free(&texts);
  return status;
}

static int train_main(int argc, char **argv) {
  training_options_t s = {
      .data = GPT_DEFAULT_DATA, .out = DEFAULT_TOKENIZER, .vocabulary = DEFAULT_VOCABULARY};
  const base_option_t table[] = {
      {'d', "data", BASE_OPTION_TEXT, &s.data, "PATH", "text file or folder tree of text files"},
      {'v', "vocabulary", BASE_OPTION_INTEGER, &s.vocabulary, "N", "size of the vocabulary",
       TRAIN_VOCABULARY_MIN, TRAIN_VOCABULARY_MAX},
      {'o', "out", BASE_OPTION_TEXT, &s.out, "PATH",
       "*.json: a tokenizer.json; else a folder for vocab.json and merges.txt"},
      {0, "json", BASE_OPTION_TEXT, &s.json, "FILE", "write the results as JSON"}};
  const base_command_t command = {
      .name = "gpt tokenizer train",
      .usage = "[options]",
      .summary =
          "Trains a byte-level BPE tokenizer: the first 256 tokens are the bytes, each\n"
          "further token is the most frequent pair of adjacent tokens. One file in ten is\n"
          "held out, as in gpt train, and used to measure the bytes per token.",
      .examples =
          "  gpt tokenizer train\n"
          "      8192 tokens from the C headers in /usr/include, to tokenizer.json\n"
          "  gpt tokenizer train --data ~/src --vocabulary 32768 --out src.json\n"
          "      for Python: tokenizers.Tokenizer.from_file('src.json')\n"
          "  gpt tokenizer train --data ~/src --out src\n"
          "      src/vocab.json and src/merges.txt, the files of GPT-2\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool help_printed = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &help_printed);
  if (help_printed) return 0;
  if (status == COLL_OK) status = base_tool_input(run_train(&s));
  return gpt_finish(command.name, status, NULL);
}

/* ---- encode ---- */

typedef struct encoding {
  const char *tokenizer, *data, *out, *text, *json;
  int64_t shard_tokens;
} encoding_t;

static coll_status_t show_text(const encoding_t *encoding, train_tokenizer_t *tokenizer) {
  train_ids_t ids = {0};
  coll_status_t status =
      train_tokenizer_encode(tokenizer, encoding->text, strlen(encoding->text), &ids);
  json_t *list = json_array();
  for (size_t i = 0; status == COLL_OK && i < ids.count; i++) {
    size_t count;
    const uint8_t *bytes = train_tokenizer_decode(tokenizer, ids.ids[i], &count);
    printf("%5u  ", ids.ids[i]);
    print_token(bytes, count);
    putchar('\n');
    json_array_append_new(list, json_integer(ids.ids[i]));
  }
  train_ids_free(&ids);
  coll_status_t wrote = write_json(encoding->json, json_pack("{s:o}", "ids", list));
  return status == COLL_OK ? wrote : status;
}

static coll_status_t write_shards(const encoding_t *encoding, train_tokenizer_t *tokenizer) {
  train_text_files_t texts;
  uint64_t tokens[TRAIN_SPLITS];
  base_progress_t progress;
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(train_text_files_list(encoding->data, &texts));
  train_progress_t callback = begin(&progress, "encode");
  coll_status_t status = train_encode_to_folder(
      &texts, tokenizer, encoding->out, (uint64_t)encoding->shard_tokens, &callback, tokens);
  end(&progress);
  if (status == COLL_OK) {
    double seconds = seconds_since(start_ns);
    for (int split = 0; split < TRAIN_SPLITS; split++) {
      print_split(&texts, (train_split_t)split, tokens[split]);
    }
    printf("%s: shards and their tokenizer, in %.1f s; train with gpt train --data %s\n",
           encoding->out, seconds, encoding->out);
    status = write_json(
        encoding->json,
        json_pack("{s:I, s:f, s:o, s:o}", "vocabulary", (json_int_t)tokenizer->tokens.count,
                  "seconds", seconds, "training",
                  split_object(&texts, TRAIN_SPLIT_TRAINING, tokens[TRAIN_SPLIT_TRAINING]),
                  "held_out",
                  split_object(&texts, TRAIN_SPLIT_HELD_OUT, tokens[TRAIN_SPLIT_HELD_OUT])));
  }
  train_text_files_free(&texts);
  return status;
}

static coll_status_t run_encode(const encoding_t *encoding) {
  train_tokenizer_t *tokenizer;
  COLL_TRY(probe(encoding->json));
  COLL_TRY(train_tokenizer_open(encoding->tokenizer, &tokenizer));
  coll_status_t status =
      encoding->text != NULL ? show_text(encoding, tokenizer) : write_shards(encoding, tokenizer);
  train_tokenizer_destroy(tokenizer);
  return status;
}

static int encode_main(int argc, char **argv) {
  encoding_t s = {.tokenizer = DEFAULT_TOKENIZER,
                  .data = GPT_DEFAULT_DATA,
                  .out = "tokens",
                  .shard_tokens = DEFAULT_SHARD_TOKENS};
  const base_option_t table[] = {
      {'k', "tokenizer", BASE_OPTION_TEXT, &s.tokenizer, "PATH",
       "a tokenizer.json, a folder with vocab.json and merges.txt, or 'bytes'"},
      {'d', "data", BASE_OPTION_TEXT, &s.data, "PATH", "text file or folder tree of text files"},
      {'o', "out", BASE_OPTION_TEXT, &s.out, "FOLDER", "a new folder for the shards"},
      {0, "shard-tokens", BASE_OPTION_INTEGER, &s.shard_tokens, "N", "maximum tokens per shard", 1,
       TRAIN_SHARD_TOKENS_MAX},
      {0, "text", BASE_OPTION_TEXT, &s.text, "TEXT", "print the tokens of this text instead"},
      {0, "json", BASE_OPTION_TEXT, &s.json, "FILE", "write the results as JSON"}};
  const base_command_t command = {
      .name = "gpt tokenizer encode",
      .usage = "[options]",
      .summary =
          "Encodes text as shards of 16-bit tokens in the format of llm.c: train_000000.bin and "
          "so\n"
          "on, and val_000000.bin with the one file in ten that is held out. Every document ends\n"
          "with <|endoftext|>. gpt train maps shards and starts without reading the text.",
      .examples =
          "  gpt tokenizer encode --data ~/src --tokenizer src.json --out src-tokens\n"
          "      then gpt train --data src-tokens\n"
          "  gpt tokenizer encode --tokenizer ~/models/gpt2 --out tokens\n"
          "      with GPT-2's own vocab.json and merges.txt\n"
          "  gpt tokenizer encode --text 'int main(void) {'\n"
          "      its tokens, one per line\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool help_printed = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &help_printed);
  if (help_printed) return 0;
  if (status == COLL_OK) status = base_tool_input(run_encode(&s));
  return gpt_finish(command.name, status, NULL);
}

/* ---- decode ---- */

typedef struct decoding {
  const char *tokenizer, *data;
  int64_t offset, tokens;
  char **words; /* ids, [word_count] */
  int word_count;
} decoding_t;

static void write_token(const train_tokenizer_t *tokenizer, uint16_t id) {
  size_t count;
  const uint8_t *bytes = train_tokenizer_decode(tokenizer, id, &count);
  fwrite(bytes, 1, count, stdout);
}

static coll_status_t decode_words(const decoding_t *decoding, const train_tokenizer_t *tokenizer) {
  for (int i = 0; i < decoding->word_count; i++) {
    int64_t id, max = (int64_t)tokenizer->tokens.count - 1;
    if (!base_text_integer(decoding->words[i], 0, max, &id)) {
      return base_fail(COLL_ERROR_INVALID, "'%s' is not a token: give 0 to %" PRId64,
                       decoding->words[i], max);
    }
    write_token(tokenizer, (uint16_t)id);
  }
  putchar('\n');
  return COLL_OK;
}

static coll_status_t decode_shard(const decoding_t *decoding, const train_tokenizer_t *tokenizer) {
  train_shard_t shard;
  COLL_TRY(train_shard_open(decoding->data, &shard));
  uint64_t first = (uint64_t)decoding->offset, count = (uint64_t)decoding->tokens;
  coll_status_t status = COLL_OK;
  if (first >= shard.count) {
    status = base_fail(COLL_ERROR_INVALID, "--offset %" PRIu64 ": %s has %" PRIu64 " tokens", first,
                       decoding->data, shard.count);
  }
  for (uint64_t at = first; status == COLL_OK && at < shard.count && at - first < count; at++) {
    if (shard.tokens[at] < tokenizer->tokens.count) {
      write_token(tokenizer, shard.tokens[at]);
    } else {
      status = base_fail(COLL_ERROR_INVALID,
                         "%s: token %u at %" PRIu64
                         " is beyond the vocabulary of %zu: it was made "
                         "with another tokenizer",
                         decoding->data, shard.tokens[at], at, tokenizer->tokens.count);
    }
  }
  train_shard_close(&shard);
  return status;
}

static coll_status_t run_decode(const decoding_t *decoding) {
  train_tokenizer_t *tokenizer;
  const char *data = decoding->data, *path = decoding->tokenizer;
  if ((data != NULL) == (decoding->word_count > 0)) {
    return base_fail(COLL_ERROR_INVALID, "give ids, or a shard with --data (--help)");
  }
  if (path == NULL && data != NULL) {
    COLL_TRY(train_corpus_tokenizer(data, &tokenizer));
    if (tokenizer == NULL) {
      return base_fail(COLL_ERROR_INVALID,
                       "there is no tokenizer next to the shards of %s: give --tokenizer", data);
    }
  } else {
    COLL_TRY(train_tokenizer_open(path != NULL ? path : DEFAULT_TOKENIZER, &tokenizer));
  }
  coll_status_t status =
      data != NULL ? decode_shard(decoding, tokenizer) : decode_words(decoding, tokenizer);
  train_tokenizer_destroy(tokenizer);
  return status;
}

static int decode_main(int argc, char **argv) {
  decoding_t s = {.tokens = DEFAULT_DECODED};
  const base_option_t table[] = {
      {'k', "tokenizer", BASE_OPTION_TEXT, &s.tokenizer, "PATH",
       "as in encode; default: the one next to the shard, else tokenizer.json"},
      {'d', "data", BASE_OPTION_TEXT, &s.data, "SHARD", "decode this shard instead of ids"},
      {0, "offset", BASE_OPTION_INTEGER, &s.offset, "N", "index of the first token"},
      {'n', "tokens", BASE_OPTION_INTEGER, &s.tokens, "N", "number of tokens"}};
  const base_command_t command = {
      .name = "gpt tokenizer decode",
      .usage = "[options] [ID...]",
      .summary = "Decodes tokens to text.",
      .examples =
          "  gpt tokenizer decode 312 405 7\n"
          "      with tokenizer.json\n"
          "  gpt tokenizer decode --data tokens/val_000000.bin --tokens 500\n"
          "      the beginning of a shard, with the tokenizer next to it\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool help_printed = false;
  int first = argc;
  coll_status_t status = base_options_parse(&command, argc, argv, &first, &help_printed);
  if (help_printed) return 0;
  s.words = argv + first;
  s.word_count = argc - first;
  if (status == COLL_OK) status = base_tool_input(run_decode(&s));
  return gpt_finish(command.name, status, NULL);
}

/* ---- command table ---- */

static const char usage[] =
    "gpt tokenizer COMMAND [options]\n"
    "\n"
    "Byte-level BPE tokenizers, in file formats that Hugging Face's tokenizers and llm.c read\n"
    "too. With a tokenizer a model processes words instead of bytes.\n"
    "\n"
    "Examples:\n"
    "  gpt tokenizer train --data ~/src --out src.json\n"
    "      trains a tokenizer of 8192 tokens\n"
    "  gpt tokenizer encode --data ~/src --tokenizer src.json --out src-tokens\n"
    "      encodes the text as token shards\n"
    "  gpt train --data src-tokens\n"
    "      trains on them\n"
    "\n"
    "Commands:\n"
    "  train   train a tokenizer on text\n"
    "  encode  encode text as token shards, or print its tokens\n"
    "  decode  decode tokens to text\n"
    "\n"
    "gpt tokenizer COMMAND --help describes a command.\n";

int gpt_tokenizer(int argc, char **argv) {
  static const base_tool_command_t commands[] = {
      {"train", train_main}, {"encode", encode_main}, {"decode", decode_main}};
  return base_tool_dispatch("gpt tokenizer", usage, commands, 3, argc, argv);
}
