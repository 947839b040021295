/*
 * Decides whether a call is served. Everything that decides is the same on all ranks.
 */
#include "frontends/mpi/call.h"

#include <pthread.h>
#include <stdio.h>

#include "frontends/mpi/stats.h"

#define FAILED_PAUSE_NS 200000000 /* after the first failure of a process */

_Thread_local bool layer_is_in_call;

/* The class of the layer's errors: the text of a code that was added to a class of the MPI's own is
 * another one in MPICH 4.0. */
static int error_class = MPI_ERR_OTHER;

static void add_error_class(void) {
  pmpi.Add_error_class(&error_class);
}

/* The default error handler ends the job: first, the other ranks get the time to say what they have
 * found, too. */
static void wait_for_others(void) {
  const struct timespec pause = {0, FAILED_PAUSE_NS};
  nanosleep(&pause, NULL);
}

int layer_call_fail(const layer_call_t *call, const char *text) {
  static pthread_once_t once = PTHREAD_ONCE_INIT, waited = PTHREAD_ONCE_INIT;
  int code = MPI_ERR_OTHER;
  char whole[MPI_MAX_ERROR_STRING];
  const char *verb = layer_verbs[call->verb].name;
  layer_say("MPI_%s: %s", verb, text);
  snprintf(whole, sizeof whole, "MPI_%s: libcoll: %.200s", verb, text);
  pthread_once(&once, add_error_class);
  pthread_once(&waited, wait_for_others);
  if (pmpi.Add_error_code(error_class, &code) == MPI_SUCCESS) pmpi.Add_error_string(code, whole);
  pmpi.Comm_call_errhandler(call->comm, code);
  return code;
}

int layer_call_leave(const layer_call_t *call, const layer_comm_t *comm, const char *text) {
  char copy[1024]; /* the text may be that of this thread's last error */
  snprintf(copy, sizeof copy, "%s", text);
  if (coll_comm_error(comm->coll) == COLL_OK) coll_comm_abort(comm->coll);
  return layer_call_fail(call, copy);
}

const char *layer_failure_text(coll_status_t status) {
  if (status != LAYER_ERROR_PACK) return coll_last_error(NULL);
  return "there is no memory to pack the data, or the MPI refused to";
}

static int serve(layer_run_t *run) {
  layer_is_in_call = true;
  coll_status_t status = layer_verbs[run->call->verb].serve(run);
  layer_is_in_call = false;
  bool is_unpacked = layer_run_finish(run, status == COLL_OK);
  if (status != COLL_OK) return layer_call_leave(run->call, run->comm, layer_failure_text(status));
  if (is_unpacked) return MPI_SUCCESS;
  return layer_call_fail(run->call, "the MPI could not unpack the data");
}

/* ---- choosing ------------------------------------------------------------------------------*/

static int carry_out(layer_run_t *run, layer_way_t way) {
  return way == LAYER_SERVED ? serve(run) : layer_verbs[run->call->verb].pass(run->call);
}

/* A call of a trial, or with statistics. */
static int measure(layer_run_t *run, layer_choice_t *choice, int class) {
  const layer_verb_row_t *verb = &layer_verbs[run->call->verb];
  bool is_tried = choice->hold == 0 && run->comm->mode == LAYER_MEASURED;
  layer_trial_t trial = {.comm = run->call->comm,
                         .rank = run->comm->rank,
                         .bytes = layer_class_bytes(class),
                         .has_one_clock = run->comm->has_one_clock,
                         .is_sum = verb->is_irregular};
  layer_way_t way = run->comm->mode == LAYER_MEASURED ? choice->way : LAYER_SERVED;
  if (is_tried) way = layer_choice_next(choice, &trial);
  if (choice->hold > 0) choice->hold--;
  double begin_us = layer_now_us();
  int result = carry_out(run, way);
  double end_us = layer_now_us();
  if (result != MPI_SUCCESS) return result;
  if (layer.has_stats) {
    bool is_chosen = way == LAYER_SERVED && choice->is_made && !is_tried;
    layer_stats_add(run->call->verb, class, way,
                    is_chosen ? choice->time_us[LAYER_PASSED] - choice->time_us[LAYER_SERVED] : 0);
  }
  if (is_tried) layer_choice_record(choice, &trial, begin_us, end_us);
  return result;
}

/* Enters a call that passes, so that the next one like it is known to (layer_passes). */
static void remember(const layer_run_t *run, layer_choice_t *choice) {
  const layer_call_t *call = run->call;
  layer_shortcut_t *shortcut = &run->comm->shortcuts[call->verb];
  bool is_sent = call->verb == LAYER_GATHER;
  const layer_side_t *side = is_sent ? &call->send : &call->recv;
  const layer_type_t *type = is_sent ? &run->send_type : &run->recv_type;
  if (call->verb == LAYER_BARRIER || layer_verbs[call->verb].is_irregular) {
    *shortcut = (layer_shortcut_t){.choice = choice};
  } else if (type->is_predefined && side->data != MPI_IN_PLACE) {
    size_t count = side->counts == NULL ? (size_t)side->count
                                        : layer_count_of(call->verb, side->counts, run->comm->size);
    if (count == LAYER_NO_COUNT) return;
    *shortcut = (layer_shortcut_t){choice, side->type, call->op, count};
  }
}

static int choose(const layer_call_t *call, layer_comm_t *comm) {
  layer_run_t run;
  if (!layer_run_prepare(&run, call, comm)) return layer_verbs[call->verb].pass(call);
  if (comm->mode == LAYER_ALWAYS && !layer.has_stats) return serve(&run);
  int class = layer_class_of(run.bytes);
  layer_choice_t *choice = layer_choice_find(&comm->choices, (int)call->verb, class);
  /* The other ranks have begun a trial, in which the first call is served. */
  if (choice == NULL) return layer_call_leave(call, comm, "out of memory");
  if (layer.has_stats || choice->hold == 0) return measure(&run, choice, class);
  choice->hold--;
  if (choice->way == LAYER_PASSED) remember(&run, choice);
  return carry_out(&run, choice->way);
}

int layer_collective(const layer_call_t *call) {
  if (!layer_is_active()) return layer_verbs[call->verb].pass(call);
  layer_comm_t *comm = layer_comm_map(call->comm);
  if (comm == NULL || comm->coll == NULL) return layer_verbs[call->verb].pass(call);
  return choose(call, comm);
}
