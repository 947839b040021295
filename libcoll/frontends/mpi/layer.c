/*
 * Starting and ending the layer.
 */
#include "frontends/mpi/layer.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/mpi/comms.h"
#include "frontends/mpi/large.h"
#include "frontends/mpi/ops.h"
#include "frontends/mpi/requests.h"
#include "frontends/mpi/stats.h"
#include "frontends/mpi/types.h"

layer_t layer;
atomic_int layer_state_now = LAYER_NEW;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int self_key = MPI_KEYVAL_INVALID;

void layer_say(const char *format, ...) {
  va_list arguments;
  char text[2048];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "libcoll: rank %d: %s\n", layer.world_rank, text);
}

void layer_progress(void) {
  int found = 0;
  pmpi.Iprobe(MPI_ANY_SOURCE, layer.probe_tag, layer.world, &found, MPI_STATUS_IGNORE);
}

/* A child of fork has none of the parent's threads and connections. */
static void end_in_child(void) {
  if (atomic_load(&layer_state_now) != LAYER_ACTIVE) return;
  atomic_store(&layer_state_now, LAYER_ENDED);
  layer_requests_forget();
  layer_comms_forget();
}

static int no_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *is_copied) {
  (void)comm, (void)key, (void)extra, (void)value, (void)copy;
  *is_copied = 0;
  return MPI_SUCCESS;
}

static int end_layer(MPI_Comm comm, int key, void *value, void *extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  if (atomic_load(&layer_state_now) != LAYER_ACTIVE) return MPI_SUCCESS;
  atomic_store(&layer_state_now, LAYER_ENDED);
  layer_stats_print();
  layer_comms_end();
  layer_types_end();
  layer_large_end();
  return MPI_SUCCESS;
}

static void read_settings(void) {
  const char *mode = getenv("COLL_MPI_SERVE"), *stats = getenv("COLL_MPI_STATS");
  layer.has_stats = stats != NULL && stats[0] != '\0' && strcmp(stats, "0") != 0;
  if (stats != NULL && stats[0] == '\0') {
    layer_say("COLL_MPI_STATS is set but empty: give 0 or 1; 0 is used");
  }
  if (mode == NULL || strcmp(mode, "measured") == 0) {
    layer.mode = LAYER_MEASURED;
  } else if (strcmp(mode, "always") == 0) {
    layer.mode = LAYER_ALWAYS;
  } else if (strcmp(mode, "never") == 0) {
    layer.mode = LAYER_NEVER;
  } else {
    layer_say("COLL_MPI_SERVE=%s: give measured, always or never; measured is used", mode);
  }
}

static void start(void) {
  int level = 0, has_tag = 0, *highest_tag;
  pmpi.Comm_rank(MPI_COMM_WORLD, &layer.world_rank);
  pmpi.Query_thread(&level);
  read_settings();
  layer.is_multiple = level == MPI_THREAD_MULTIPLE;
  layer.comm_null = MPI_COMM_NULL;
  layer.type_null = MPI_DATATYPE_NULL;
  layer.request_null = MPI_REQUEST_NULL;
  layer.world = MPI_COMM_WORLD;
  pmpi.Comm_get_attr(layer.world, MPI_TAG_UB, &highest_tag, &has_tag);
  layer.probe_tag = has_tag ? *highest_tag : 32767; /* the least that MPI allows */
  pmpi.Comm_create_keyval(no_copy, end_layer, &self_key, NULL);
  pmpi.Comm_set_attr(MPI_COMM_SELF, self_key, NULL);
  pmpi.Comm_free_keyval(&self_key); /* it lives as long as the attribute */
  layer_types_start();
  layer_ops_start();
  layer_comms_start();
  pthread_atfork(NULL, NULL, end_in_child);
}

bool layer_start(void) {
  int is_initialized = 0, is_finalized = 0;
  pmpi_load();
  pthread_mutex_lock(&start_lock);
  if (atomic_load(&layer_state_now) == LAYER_NEW) {
    pmpi.Initialized(&is_initialized);
    if (is_initialized) pmpi.Finalized(&is_finalized);
    if (is_initialized && !is_finalized) {
      start();
      atomic_store_explicit(&layer_state_now, LAYER_ACTIVE, memory_order_release);
    }
  }
  pthread_mutex_unlock(&start_lock);
  return atomic_load(&layer_state_now) == LAYER_ACTIVE;
}

#if !defined(OMPI_MAJOR_VERSION)
/* MPICH 4.0 over UCX waits here for what it has sent to be acknowledged, while another rank may
 * already wait for all ranks without making progress: a program whose last call is a large message
 * hangs now and then. A last collective of the MPI prevents that, but the layer may have served it.
 */
LAYER_EXPORT int MPI_Finalize(void) {
  if (layer_is_active()) pmpi.Barrier(MPI_COMM_WORLD);
  pmpi_load();
  return pmpi.Finalize();
}
#endif
