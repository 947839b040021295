/* Declarations shared by the commands of gpt: the main function of each command, the process group,
 * and printing of results. */
#ifndef TOOLS_GPT_GPT_H
#define TOOLS_GPT_GPT_H

#include "base/options.h"
#include "base/tool.h"
#include "libtrain/common/pool.h"
#include "libtrain/parallel/group.h"
#include "libtrain/trainer.h"

/* Each takes argv starting with its own name and returns the exit code. It prints its own
 * errors. */
int gpt_train(int argc, char **argv);
int gpt_eval(int argc, char **argv);
int gpt_sample(int argc, char **argv);
int gpt_plan(int argc, char **argv);
int gpt_schedule(int argc, char **argv);
int gpt_mesh(int argc, char **argv);
int gpt_convert(int argc, char **argv);
int gpt_tokenizer(int argc, char **argv);

#define GPT_DEFAULT_DATA "/usr/include"
#define GPT_DEFAULT_CHECKPOINT "gpt.ckpt"

/* Parses the complete command line. Arguments that are not options are an error. */
coll_status_t gpt_options_parse(const base_command_t *command, int argc, char **argv,
                                bool *help_printed);

/* Joins the launcher's communicator. `status_before` is this rank's status so far: the call
 * succeeds on all ranks or on none. *group must be zeroed and must be passed to gpt_finish in any
 * case. */
coll_status_t gpt_group_open(coll_status_t status_before, train_group_t *group);

/* Creates this rank's thread pool with `threads` threads, or with 0 its share of the cores. */
coll_status_t gpt_pool_create(const train_group_t *group, int64_t threads, train_pool_t **pool);

/* Ends a command: prints the error message on standard error, on the rank that has it, and leaves
 * the group. A status other than COLL_OK must be agreed on by all ranks or come from the
 * communicator. group NULL: the command has none. Returns the exit code. */
int gpt_finish(const char *command, coll_status_t status, train_group_t *group);

/* The loss per byte of text that the tokens represent; 0 if unknown. */
double gpt_nats_per_byte(const train_evaluation_t *evaluation);

/* Prints "held-out loss 3.2 nats/token, 0.8 nats/byte (1.15 bits/byte) over 131072 tokens" to
 * standard output; unknown values are omitted. */
void gpt_evaluation_print(const train_evaluation_t *evaluation);

#endif
