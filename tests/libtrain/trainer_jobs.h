/*
 * Training runs on ranks that are threads of the test, on a small corpus, with optional faults in
 * the computation of one rank.
 */
#ifndef TESTS_LIBTRAIN_TRAINER_JOBS_H
#define TESTS_LIBTRAIN_TRAINER_JOBS_H

#include <coll.h>

#include "folder.h"
#include "libtrain/mesh/mesh.h"
#include "libtrain/trainer.h"

#define RANKS_MAX 4
#define STEPS 40 /* of a run, unless a test changes it */
#define STEPS_MAX 150

extern const train_model_config_t trainer_config;
extern folder_t trainer_folder;
extern train_corpus_t trainer_corpus;

/* Create and remove the folder and the corpus; for TestSuite. */
void trainer_setup(void);
void trainer_teardown(void);

/* A fault in the computation of one rank: what is not finite, and from which step to which. If
 * `row` is not 0, every `row` faulty steps are followed by one without a fault. */
typedef enum fault_kind { FAULT_NONE, FAULT_GRADIENT, FAULT_LOSS } fault_kind_t;
typedef struct fault {
  fault_kind_t kind;
  int rank;
  uint64_t first, last, row;
} fault_t;

/* Inputs and results of one rank. */
typedef struct job {
  coll_comm_t comm;
  train_options_t options;
  train_store_options_t store_options;
  int micro_batches;
  int tp, pp;         /* tensor ranks and stages; 0: 1. The other ranks are data ranks */
  const char *resume; /* NULL: a new model */
  coll_status_t status;
  char message[512];
  float losses[STEPS_MAX];
  bool skipped[STEPS_MAX];
  uint64_t digests[STEPS_MAX]; /* of the part's parameters after each step */
  double scales[STEPS_MAX];    /* the loss scale */
  int overlaps[STEPS_MAX];     /* of the tensor axis */
  int choices, chosen;         /* how often its choice was made, and which */
  int rank;
  fault_t fault;
  train_metadata_t metadata;
  train_mesh_t *mesh; /* NULL: data ranks only */
  train_ranks_t ranks;
  train_layout_t *layout; /* of this rank's part of the model */
  train_store_t *store;
  float *parameters; /* all of the part, at the end */
  train_result_t result;
  const char *copy; /* hard link to the checkpoint made halfway through the run */
  bool copied;
} job_t;

/* Sets jobs[size] to the usual options, without faults. */
void start_jobs(int size, job_t *jobs);

/* The same, with a fault on the last rank from step `first` to step `last`. */
void start_faulty_jobs(int size, job_t *jobs, fault_kind_t kind, uint64_t first, uint64_t last);

/* Runs jobs[size] as the ranks of one communicator. */
void run_jobs(int size, job_t *jobs);
void free_jobs(int size, job_t *jobs);

void check_all_ok(int size, const job_t *jobs);

/* Checks that all ranks failed, and that exactly one has a message, which contains `words`. */
void check_all_failed(int size, const job_t *jobs, const char *words);

bool same_parameters(const job_t *a, const job_t *b);

#endif
