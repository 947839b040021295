/*
 * The connection of a communicator's GPUs: what one rank does in it, and what the ranks tell each
 * other. connect.c has the order of the steps.
 */
#ifndef OFFLOAD_ATTEMPT_H
#define OFFLOAD_ATTEMPT_H

#include "offload/state.h"

/* What a rank tells the others of its part. */
typedef struct attempt_report {
  int32_t status;   /* a coll_status_t */
  int32_t is_apart; /* its GPU and those of others cannot map each other's memory */
  cuda_offer_t offer;
  char text[COMM_ERROR_BYTES - 64]; /* why it failed, or is apart */
} attempt_report_t;

typedef struct attempt_announcement {
  cuda_record_t record;
  attempt_report_t report;
} attempt_announcement_t;

/* A member while it is being connected. */
typedef struct attempt {
  offload_member_t *member;
  cuda_engine_t asked; /* COLL_CUDA_ENGINE */
  attempt_announcement_t own;
  attempt_announcement_t *all; /* [size] */
  cuda_record_t *records;      /* [size]: of these; set by attempt_compare */
  attempt_report_t *reports;   /* [size] */
  bool *remote;                /* [size]: of another process */
  int descriptor;              /* of this rank's arena; -1: none */
  bool has_remote;
  bool is_staged; /* a rank is apart, so all have a proxy in place of the end that they have made */
  attempt_report_t verdict;
} attempt_t;

/* All but own is zeroed by the caller. The end of it frees what attempt_init allocates. */
coll_status_t attempt_init(attempt_t *attempt);
void attempt_free(attempt_t *attempt);

/* Makes this rank's end with its descriptor, so that nobody waits for one that cannot be made, or
 * its proxy; notes a failure in own.report, as do all functions below. */
void attempt_announce(attempt_t *attempt);

/* Makes a proxy in place of the end. */
void attempt_replace(attempt_t *attempt);

/* Begin and end this rank's connection with the others. A thread that holds several ranks begins
 * with all before it ends one, as these wait for each other. */
void attempt_begin(attempt_t *attempt);
void attempt_end(attempt_t *attempt);

/* Finds out from the reports of all ranks, one every `stride` bytes, whether one has failed, which
 * is the verdict, or is apart, which rank 0 prints with COLL_DEBUG=1. All ranks find the same. */
void attempt_judge(attempt_t *attempt, const attempt_report_t *first, size_t stride);

/* Finds out from what all have announced whether they ask for different engines: the verdict. */
void attempt_compare(attempt_t *attempt);

#endif
