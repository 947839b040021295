/* Functions shared by the commands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "libtrain/common/threads.h"
#include "tools/gpt/gpt.h"

coll_status_t gpt_options_parse(const base_command_t *command, int argc, char **argv,
                                bool *help_printed) {
  int first;
  COLL_TRY(base_options_parse(command, argc, argv, &first, help_printed));
  if (*help_printed || first == argc) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "unexpected argument '%s': values must follow options (--help)", argv[first]);
}

coll_status_t gpt_group_open(coll_status_t status_before, train_group_t *group) {
  coll_comm_t comm;
  coll_status_t status = coll_comm_create_env(NULL, &comm);
  if (status != COLL_OK) {
    if (status_before != COLL_OK) return status_before;
    return base_tool_input(base_fail(status, "%s", coll_last_error(NULL)));
  }
  status = train_group_init(comm, group);
  if (status != COLL_OK) {
    coll_comm_destroy(comm);
    return status;
  }
  return train_group_agree(group, status_before);
}

coll_status_t gpt_pool_create(const train_group_t *group, int64_t threads, train_pool_t **pool) {
  int64_t ranks_here = group->size;
  const char *local_ranks = getenv("LOCAL_WORLD_SIZE"); /* as in torchrun; collrun sets it, too */
  if (local_ranks != NULL) base_text_integer(local_ranks, 1, group->size, &ranks_here);
  int chosen = threads > 0 ? (int)threads : train_threads_default((int)ranks_here);
  return train_pool_create(chosen, pool);
}

int gpt_finish(const char *command, coll_status_t status, train_group_t *group) {
  int code = status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail(command, status);
  if (group != NULL && group->comm != NULL) {
    /* Launchers end all ranks when one fails. The barrier lets the failed rank print its message
     * first. */
    if (status != COLL_OK && coll_comm_error(group->comm) == COLL_OK) {
      coll_barrier(group->comm, NULL);
    }
    coll_comm_destroy(group->comm);
  }
  return code;
}

double gpt_nats_per_byte(const train_evaluation_t *evaluation) {
  if (evaluation->bytes == 0) return 0;
  return evaluation->loss * (double)evaluation->tokens / (double)evaluation->bytes;
}

void gpt_evaluation_print(const train_evaluation_t *evaluation) {
  double per_byte = gpt_nats_per_byte(evaluation);
  printf("held-out loss %.4f nats/token", evaluation->loss);
  if (per_byte > 0) printf(", %.4f nats/byte (%.4f bits/byte)", per_byte, per_byte / log(2.0));
  printf(" over %llu tokens\n", (unsigned long long)evaluation->tokens);
}
