/*
 * Reports the progress of a run from rank 0: a progress bar and, on request, a JSON Lines log,
 * TensorBoard event files and a loss curve. A file that cannot be written does not stop the run.
 * The error is printed at once, and the command fails at the end. Every rank has a logger, because
 * measuring memory is collective.
 */
#ifndef TOOLS_GPT_LOGGER_H
#define TOOLS_GPT_LOGGER_H

#include "libtrain/parallel/memory.h"
#include "libtrain/trainer.h"
#include "tools/gpt/parallel.h"
#include "tools/gpt/settings.h"
#include "tools/gpt/speed.h"

typedef struct gpt_logger gpt_logger_t;

/* What is known before the first step. The caller must keep all of it valid. */
typedef struct gpt_setup {
  const gpt_settings_t *settings;
  const train_group_t *group;
  const gpt_parallel_t *parallel;
  const train_layout_t *layout; /* of the whole model */
  const train_corpus_t *corpus;
  gpt_speed_t speed;
  uint64_t first_step;       /* steps done by previous runs */
  int threads;               /* per rank */
  train_memory_t memory;     /* predicted memory of a rank */
  uint64_t footprint_before; /* of this rank, before the store and the model were allocated */
} gpt_setup_t;

/* Rank 0 opens the files given in the settings and writes the setup to them and to standard output.
 * COLL_ERROR_SYSTEM: a file cannot be written. */
coll_status_t gpt_logger_open(const gpt_setup_t *setup, gpt_logger_t **logger);

/* Callbacks for train_run. */
train_observer_t gpt_logger_observer(gpt_logger_t *logger);

/* Ends the progress bar, also after a failed run. */
void gpt_logger_stop(gpt_logger_t *logger);

/* Reports the result of a successful run. Collective. Rank 0 returns the first error of a file. */
coll_status_t gpt_logger_finish(gpt_logger_t *logger, const train_result_t *result);

void gpt_logger_close(gpt_logger_t *logger); /* NULL is allowed */

#endif
