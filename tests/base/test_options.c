/* The option parser: every form of an option, every kind of mistake, and the help page. */
#include "base/options.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/status.h"

static const char *const modes[] = {"auto", "ring", "tree", NULL};

static bool check;
static int64_t ranks;
static uint64_t bytes;
static double rate;
static int mode;
static const char *file;
static int64_t registered;
static base_option_list_t names, pairs;

static const base_option_t options[] = {
    {'c', "check", BASE_OPTION_FLAG, &check, NULL, "look at every element", 0, 0, NULL},
    {'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N", "how many", 1, 64, NULL},
    {'b', NULL, BASE_OPTION_BYTES, &bytes, "SIZE", "smallest", 4, 65536, NULL},
    {0, "rate", BASE_OPTION_NUMBER, &rate, "R", "per second", 0, 0, NULL},
    {0, "mode", BASE_OPTION_WORD, &mode, "MODE", "which", 0, 0, modes},
    {0, "file", BASE_OPTION_TEXT, &file, "FILE", "where", 0, 0, NULL},
    {'R', "local_register", BASE_OPTION_SWITCH, &registered, "N", "how", 0, 2, NULL},
    {'x', NULL, BASE_OPTION_LIST, &names, "NAME", "a variable", 0, 0, NULL},
};

static const base_option_t others[] = {
    {0, "np", BASE_OPTION_INTEGER, &ranks, "N", "ranks", 1, 64, NULL},
    {0, "mca", BASE_OPTION_PAIR, &pairs, "NAME VALUE", "settings", 0, 0, NULL},
};

static const base_command_t command = {"prog",     "WHAT [options]",
                                       "Does it.", "prog x\n    does x\n",
                                       options,    sizeof options / sizeof options[0],
                                       others,     sizeof others / sizeof others[0]};

static void reset(void) {
  check = false;
  ranks = 2;
  bytes = 8;
  rate = 1.5;
  mode = 0;
  file = NULL;
  registered = 0;
  names.count = pairs.count = 0;
}

TestSuite(options, .init = reset);

/* Parses the words, which end with NULL. */
static coll_status_t parse(char **argv, int *first, bool *helped) {
  int argc = 0;
  while (argv[argc] != NULL) argc++;
  return base_options_parse(&command, argc, argv, first, helped);
}
#define PARSE(first, helped, ...) parse((char *[]){"prog", __VA_ARGS__, NULL}, first, helped)

Test(options, parses_every_form) {
  int first = 0;
  bool helped = true;
  cr_assert_eq(PARSE(&first, &helped, "-c", "-n", "5", "--rate=2e3", "--mode", "tree", "-b", "64K",
                     "--file=", "rest", "-n"),
               COLL_OK, "%s", base_last_error());
  cr_assert(check && ranks == 5 && rate == 2e3 && mode == 2 && bytes == 65536);
  cr_assert_str_eq(file, "");
  cr_assert_eq(first, 10, "stopped at %d", first);
  cr_assert_not(helped);
}

Test(options, takes_values_in_the_same_word) {
  int first = 0;
  bool helped;
  cr_assert_eq(PARSE(&first, &helped, "-n5", "-b64K", "rest"), COLL_OK, "%s", base_last_error());
  cr_assert(ranks == 5 && bytes == 65536 && first == 3);
  cr_assert_eq(PARSE(&first, &helped, "-n=6", "-c"), COLL_OK, "%s", base_last_error());
  cr_assert(ranks == 6 && check && first == 3);
}

Test(options, takes_names_behind_one_dash_and_with_either_kind_of_dash) {
  int first = 0;
  bool helped;
  cr_assert_eq(PARSE(&first, &helped, "-np", "7", "-rate", "2", "--local-register", "2"), COLL_OK,
               "%s", base_last_error());
  cr_assert(ranks == 7 && rate == 2 && registered == 2);
  cr_assert_eq(PARSE(&first, &helped, "--np=3", "-ranks=4"), COLL_OK, "%s", base_last_error());
  cr_assert_eq(ranks, 4);
}

Test(options, takes_a_number_behind_a_switch_or_none) {
  static const struct {
    char *words[3];
    int64_t value;
    int first;
  } cases[] = {{{"-R", "0"}, 0, 3},         {{"-R", "2"}, 2, 3}, {{"-R"}, 1, 2},
               {{"-R", "allreduce"}, 1, 2}, {{"-R2"}, 2, 2},     {{"-R", "-c"}, 1, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *argv[] = {"prog", cases[i].words[0], cases[i].words[1], NULL};
    int first = 0;
    bool helped;
    registered = -1;
    cr_assert_eq(parse(argv, &first, &helped), COLL_OK, "%s", base_last_error());
    cr_expect(registered == cases[i].value && first == cases[i].first, "case %zu", i);
  }
}

Test(options, keeps_the_values_of_an_option_that_is_repeated) {
  int first = 0;
  bool helped;
  cr_assert_eq(PARSE(&first, &helped, "-x", "A", "-xB=1", "--mca", "btl", "tcp", "--mca", "a", "b"),
               COLL_OK, "%s", base_last_error());
  cr_assert(names.count == 2 && pairs.count == 4 && first == 10);
  cr_assert_str_eq(names.values[1], "B=1");
  cr_assert_str_eq(pairs.values[1], "tcp");
  cr_assert_eq(PARSE(&first, &helped, "--mca", "btl"), COLL_ERROR_INVALID);
}

Test(options, suggests_what_somebody_may_have_meant) {
  static const struct {
    char *word;
    const char *suggestion; /* NULL: none */
  } cases[] = {{"--rnaks", "--ranks?"},
               {"--Ranks", "--ranks?"},
               {"-raks", "--ranks?"},
               {"--fil", "--file?"},
               {"--local_regster", "--local_register?"},
               {"--mod=ring", "--mode?"},
               {"--verbose", NULL},
               {"--x", NULL},
               {"-q", NULL},
               {"--chekc", "--check?"},
               {"--local", "--local_register?"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *argv[] = {"prog", cases[i].word, NULL};
    int first;
    bool helped;
    cr_assert_eq(parse(argv, &first, &helped), COLL_ERROR_INVALID, "%s", cases[i].word);
    const char *meant = strstr(base_last_error(), "did you mean ");
    if (cases[i].suggestion == NULL) {
      cr_expect_null(meant, "%s", base_last_error());
    } else {
      cr_expect(meant != NULL && strstr(meant, cases[i].suggestion) != NULL, "%s",
                base_last_error());
    }
  }
}

Test(options, keeps_defaults_and_stops_at_words_and_dashes) {
  int first = 0;
  bool helped;
  cr_assert_eq(PARSE(&first, &helped, "--", "-c"), COLL_OK);
  cr_assert(first == 2 && !check && ranks == 2 && bytes == 8);
  cr_assert_eq(PARSE(&first, &helped, "-", "-c"), COLL_OK);
  cr_assert_eq(first, 1, "a lone dash is a word");
}

Test(options, rejects_wrong_options_with_a_reason) {
  static const struct {
    char *words[3];
    const char *says;
  } bad[] = {
      {{"--rank", "3"}, "--ranks"},
      {{"-y"}, "-y"},
      {{"-n"}, "needs a value"},
      {{"--ranks"}, "needs a value"},
      {{"-n", "0"}, "1 to 64"},
      {{"-n", "65"}, "1 to 64"},
      {{"-n", "two"}, "whole number"},
      {{"--ranks="}, "whole number"},
      {{"-b", "2"}, "from 4 to 64K"},
      {{"-b", "128K"}, "from 4 to 64K"},
      {{"--mode", "rnig"}, "'ring'"},
      {{"--rate", "fast"}, "number"},
      {{"--check=yes"}, "takes no"},
      {{"-nn", "3"}, "-nn"},
      {{"--ranks-and-more=1"}, "--ranks-and-more"},
      {{"-n0"}, "1 to 64"},
      {{"-cn"}, "-cn"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char *argv[] = {"prog", bad[i].words[0], bad[i].words[1], NULL};
    int first = 77;
    bool helped;
    cr_assert_eq(parse(argv, &first, &helped), COLL_ERROR_INVALID, "%s", bad[i].words[0]);
    cr_assert_not_null(strstr(base_last_error(), bad[i].says), "%s", base_last_error());
    cr_assert_eq(first, 77);
  }
  cr_assert(ranks == 2 && bytes == 8 && rate == 1.5 && mode == 0, "a rejected value was stored");
}

Test(options, prints_every_option_in_the_help) {
  char page[4096] = "";
  FILE *out = fmemopen(page, sizeof page, "w");
  cr_assert_not_null(out);
  base_options_help(&command, out);
  fclose(out);
  static const char *const parts[] = {
      "prog WHAT [options]", "Does it.",      "does x",         "-n, --ranks N", "(default 2)",
      "(default 8)",         "(default 1.5)", "(default auto)", "--file FILE",   "-h, --help"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    cr_assert_not_null(strstr(page, parts[i]), "no '%s' in:\n%s", parts[i], page);
  }
  cr_assert_null(strstr(page, "--np"), "names of other programs are left out");
}

Test(options, reports_a_request_for_help) {
  int first;
  bool helped = false;
  cr_assert_eq(PARSE(&first, &helped, "-n", "3", "--help", "--nonsense"), COLL_OK);
  cr_assert(helped && ranks == 3);
}
