/* What the commands of gpt share: each is a main of its own; the ranks they run on; the report. */
#ifndef TOOLS_GPT_GPT_H
#define TOOLS_GPT_GPT_H

#include "base/options.h"
#include "libtrain/ops/pool.h"
#include "libtrain/parallel/group.h"
#include "libtrain/trainer.h"

/* Each takes argv from its own name on and returns the exit code; it says what went wrong. */
int gpt_train(int argc, char **argv);
int gpt_eval(int argc, char **argv);
int gpt_sample(int argc, char **argv);
int gpt_plan(int argc, char **argv);
int gpt_convert(int argc, char **argv);
int gpt_tokenizer(int argc, char **argv);

#define GPT_DEFAULT_DATA "/usr/include"
#define GPT_DEFAULT_CHECKPOINT "gpt.ckpt"

/* Parses the whole command line; words that are no options are refused. */
coll_status_t gpt_options_parse(const base_command_t *command, int argc, char **argv, bool *helped);

/* Joins the launcher's communicator, with `so_far` as what this rank has come to before: succeeds
 * on all ranks or on none. *team starts zeroed and is given to gpt_finish either way. */
coll_status_t gpt_group_open(coll_status_t so_far, train_group_t *group);

/* The threads that this rank computes with: as many as told, or with 0 its share of the cores. */
coll_status_t gpt_pool_create(const train_group_t *group, int64_t threads, train_pool_t **pool);

/* Ends a command: tells a failure's sentence on standard error, on the one rank that has it, and
 * leaves the team. A status that is not COLL_OK is one that the ranks have agreed on, or the
 * communicator's own. Returns the exit code. */
int gpt_finish(const char *command, coll_status_t status, train_group_t *group);

/* The loss over the bytes of text that the tokens stand for; 0 when that is not known. */
double gpt_nats_per_byte(const train_evaluation_t *evaluation);

/* "held-out loss 3.2 nats/token, 0.8 nats/byte (1.15 bits/byte) over 131072 tokens" to standard
 * output, without what is not known. */
void gpt_evaluation_print(const train_evaluation_t *evaluation);

#endif
