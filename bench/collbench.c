/* collbench: measures and checks collectives. This file starts the ranks, either one per process or
 * all as threads of this process. Every rank runs the same rows. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/tool.h"
#include "bench/explain.h"
#include "bench/gpu.h"
#include "bench/report.h"
#include "bench/routes.h"
#include "bench/rows.h"
#include "bench/runner.h"
#include "bench/settings.h"

/* Argument of the thread of a rank. */
typedef struct rank_arguments {
  const bench_settings_t *settings;
  coll_comm_t comm; /* owned */
  bool failed, wrong;
} rank_arguments_t;

/* A wrong command line is wrong on all ranks, so only rank 0 prints the error. */
static bool is_rank_zero(void) {
  static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                          "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
    const char *value = getenv(variables[i]);
    if (value != NULL) return strcmp(value, "0") == 0;
  }
  return true;
}

static volatile sig_atomic_t reports_timeout; /* on rank 0 */

/* A rank that waits in a call cannot be asked to stop. */
static void end_at_timeout(int number) {
  static const char text[] = "collbench: a row took longer than -T allows\n";
  (void)number;
  if (reports_timeout) (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(BASE_EXIT_FAILED);
}

/* Ranks that are threads share one alarm. */
static void limit_row(const bench_runner_t *runner, int timeout_s) {
  if (runner->settings->timeout_s == 0) return;
  if (runner->settings->threads > 0 && runner->rank != 0) return;
  reports_timeout = runner->rank == 0;
  signal(SIGALRM, end_at_timeout);
  alarm((unsigned)timeout_s);
}

static coll_status_t run_rows(bench_runner_t *runner, const bench_rows_t *rows,
                              bench_report_t *report, bool *wrong) {
  for (size_t i = 0; i < rows->count; i++) {
    bench_result_t out_of_place, in_place;
    limit_row(runner, runner->settings->timeout_s);
    COLL_TRY(bench_runner_row(runner, &rows->rows[i], &out_of_place, &in_place));
    limit_row(runner, 0);
    if (out_of_place.wrong > 0 || in_place.wrong > 0) *wrong = true;
    if (report != NULL) bench_report_row(report, &rows->rows[i], &out_of_place, &in_place);
  }
  return COLL_OK;
}

static coll_status_t run_cycles(const bench_settings_t *settings, const bench_rows_t *rows,
                                bench_runner_t *runner, bench_report_t *report, bool *wrong) {
  for (int i = 0; settings->cycles == 0 || i < settings->cycles; i++) {
    COLL_TRY(run_rows(runner, rows, report, wrong));
  }
  return COLL_OK;
}

static coll_status_t run_reported(const bench_settings_t *settings, const bench_rows_t *rows,
                                  bench_runner_t *runner, bool *wrong) {
  bench_report_t report;
  if (runner->rank != 0) return run_cycles(settings, rows, runner, NULL, wrong);
  COLL_TRY(bench_report_begin(settings, rows, runner->ranks, stdout, &report));
  coll_status_t status = run_cycles(settings, rows, runner, &report, wrong);
  if (status == COLL_OK) return bench_report_end(&report);
  bench_report_abandon(&report);
  return status;
}

/* Loads the plan and keeps of the settings what it is right for. */
static coll_status_t load_plan(coll_comm_t comm, bench_settings_t *settings) {
  coll_plan_info_t info = COLL_PLAN_INFO_INIT;
  if (settings->plan == NULL) return COLL_OK;
  coll_status_t status = bench_take_error(comm, coll_comm_plan_load(comm, settings->plan, &info));
  (void)coll_barrier(comm, NULL); /* all have their error before one aborts the communicator */
  COLL_TRY(status);
  settings->any_order = info.any_order != 0;
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    if (!settings->collectives[i] || i == (int)info.collective) continue;
    return base_fail(COLL_ERROR_INVALID, "%s is a plan of %s, not of %s", settings->plan,
                     coll_collective_name(info.collective),
                     coll_collective_name((coll_collective_t)i));
  }
  if (bench_collective_is_rooted(info.collective)) settings->root = info.root;
  if (!info.out_of_place) settings->places[BENCH_OUT_OF_PLACE] = false;
  if (!info.in_place) settings->places[BENCH_IN_PLACE] = false;
  if (settings->places[BENCH_OUT_OF_PLACE] || settings->places[BENCH_IN_PLACE]) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s is right for calls %s only: change --place",
                   settings->plan, info.in_place ? "in place" : "out of place");
}

static coll_status_t run_rank(const bench_settings_t *given, coll_comm_t comm, bool *wrong) {
  bench_settings_t own = *given; /* the lists stay the caller's */
  const bench_settings_t *settings = &own;
  bench_rows_t rows;
  bench_runner_t runner;
  int ranks;
  COLL_TRY(bench_take_error(comm, coll_comm_size(comm, &ranks)));
  if (settings->show_routes) COLL_TRY(bench_routes_show(comm, stdout));
  COLL_TRY(load_plan(comm, &own));
  COLL_TRY(bench_rows_make(settings, ranks, &rows));
  if (settings->explain) {
    coll_status_t explained = bench_explain(settings, &rows, comm, stdout);
    bench_rows_free(&rows);
    return explained;
  }
  coll_status_t status = bench_runner_make(settings, &rows, comm, &runner);
  if (status == COLL_OK) {
    status = run_reported(settings, &rows, &runner, wrong);
    bench_runner_free(&runner);
  }
  bench_rows_free(&rows);
  return status;
}

/* Prints the error and aborts the communicator, so that the other ranks do not wait for this one.
 * An invalid argument is invalid on all ranks, so only rank 0 prints that. */
static void abort_job(coll_comm_t comm, coll_status_t status) {
  int rank = 0;
  (void)coll_comm_rank(comm, &rank);
  if (rank == 0 || status != COLL_ERROR_INVALID) {
    const char *sentence = base_last_error();
    bool names_rank = strncmp(sentence, "rank ", 5) == 0;
    if (names_rank) {
      fprintf(stderr, "collbench: %s\n", sentence);
    } else {
      fprintf(stderr, "collbench: rank %d: %s\n", rank, sentence);
    }
  }
  (void)coll_comm_abort(comm);
}

static void *rank_thread(void *argument) {
  rank_arguments_t *rank = argument;
  coll_status_t status = run_rank(rank->settings, rank->comm, &rank->wrong);
  if (status != COLL_OK) {
    rank->failed = true;
    abort_job(rank->comm, status);
  }
  if (bench_take_error(rank->comm, coll_comm_destroy(rank->comm)) != COLL_OK) rank->failed = true;
  return NULL;
}

static coll_status_t run_process(const bench_settings_t *settings, bool *failed) {
  rank_arguments_t rank = {.settings = settings};
  COLL_TRY(bench_take_error(NULL, coll_comm_create_env(NULL, &rank.comm)));
  rank_thread(&rank);
  *failed = rank.failed || rank.wrong;
  return COLL_OK;
}

static coll_status_t run_threads(const bench_settings_t *settings, bool *failed) {
  size_t ranks = (size_t)settings->threads;
  void *arguments_memory = NULL, *threads_memory = NULL, *comms_memory = NULL;
  coll_status_t status =
      base_alloc(ranks, sizeof(rank_arguments_t), "the ranks", &arguments_memory);
  if (status == COLL_OK) {
    status = base_alloc(ranks, sizeof(pthread_t), "the threads", &threads_memory);
  }
  if (status == COLL_OK) {
    status = base_alloc(ranks, sizeof(coll_comm_t), "the communicators", &comms_memory);
  }
  rank_arguments_t *arguments = arguments_memory;
  pthread_t *threads = threads_memory;
  coll_comm_t *comms = comms_memory;
  if (status == COLL_OK) {
    status = bench_take_error(NULL, coll_comm_create_local(settings->threads, NULL, comms));
  }
  size_t started = 0;
  for (; status == COLL_OK && started < ranks; started++) {
    arguments[started] = (rank_arguments_t){.settings = settings, .comm = comms[started]};
    if (pthread_create(&threads[started], NULL, rank_thread, &arguments[started]) != 0) {
      status = base_fail(COLL_ERROR_SYSTEM, "cannot start thread %zu of %zu", started, ranks);
      break;
    }
  }
  if (status != COLL_OK && started > 0) (void)coll_comm_abort(comms[started]);
  for (size_t i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    *failed = *failed || arguments[i].failed || arguments[i].wrong;
  }
  free(comms);
  free(threads);
  free(arguments);
  return status;
}

/* -g and -t are for GPUs. Where there are none, the ranks run on the host. */
static bool falls_back_to_host(bench_settings_t *settings) {
  int count = 0;
  if (!bench_memory_is_cuda(settings->memory) || settings->memory_is_chosen) return false;
  if (bench_gpu_count(&count) == COLL_OK && count > 0) return false;
  settings->memory = BENCH_MALLOC;
  settings->launches = 0;
  return true;
}

/* Once, on rank 0. */
static void print_notes(const bench_settings_t *settings, bool has_fallen_back) {
  if (!is_rank_zero()) return;
  if (has_fallen_back) {
    fprintf(stderr, "collbench: there is no GPU: the ranks and their buffers are on the host\n");
  }
  if (settings->ignored[0] != '\0') {
    fprintf(stderr, "collbench: these options of nccl-tests change nothing here: %s\n",
            settings->ignored);
  }
}

static int run_tool(int argc, char **argv) {
  bench_settings_t settings;
  bool help_printed = false, failed = false;
  coll_status_t status = bench_settings_parse(argc, argv, &settings, &help_printed);
  if (status != COLL_OK) {
    return is_rank_zero() ? base_tool_fail("collbench", status) : BASE_EXIT_USAGE;
  }
  if (help_printed) return BASE_EXIT_DONE;
  print_notes(&settings, falls_back_to_host(&settings));
  status = settings.threads > 0 ? run_threads(&settings, &failed) : run_process(&settings, &failed);
  bench_settings_free(&settings);
  if (status != COLL_OK) return base_tool_fail("collbench", base_tool_input(status));
  return failed ? BASE_EXIT_FAILED : BASE_EXIT_DONE;
}

int main(int argc, char **argv) {
  return base_tool_main("collbench", run_tool, argc, argv);
}
