/*
 * What is told of a run as it goes, by rank 0: a progress bar, and on request a log of JSON lines,
 * event files for TensorBoard and a curve. A file that can no longer be written does not end the
 * run: it is told at once, and fails the command in the end. Every rank keeps a record of its own,
 * since what they take is told for all.
 */
#ifndef TOOLS_GPT_RECORD_H
#define TOOLS_GPT_RECORD_H

#include "libtrain/parallel/memory.h"
#include "libtrain/trainer.h"
#include "tools/gpt/settings.h"
#include "tools/gpt/speed.h"

typedef struct gpt_record gpt_record_t;

/* What is known before the first step; all of it outlives the record. */
typedef struct gpt_setup {
  const gpt_settings_t *settings;
  const train_group_t *group;
  const train_layout_t *layout;
  const train_corpus_t *corpus;
  gpt_speed_t speed;
  uint64_t first_step;       /* steps that were taken before */
  int threads;               /* per rank */
  train_memory_t memory;     /* of a rank, as predicted */
  uint64_t footprint_before; /* of this rank, before it took that memory */
} gpt_setup_t;

/* Rank 0 opens the files that the settings name and writes the setup to them and to standard
 * output. COLL_ERROR_SYSTEM: one cannot be written. */
coll_status_t gpt_record_open(const gpt_setup_t *setup, gpt_record_t **record);

/* What the trainer is to call. */
train_observer_t gpt_record_observer(gpt_record_t *record);

/* Ends the progress bar, whatever came of the run. */
void gpt_record_stop(gpt_record_t *record);

/* Tells the result of a run that went well: a collective. The first failure of a file, if any, on
 * rank 0. */
coll_status_t gpt_record_finish(gpt_record_t *record, const train_result_t *result);

void gpt_record_close(gpt_record_t *record); /* NULL is fine */

#endif
