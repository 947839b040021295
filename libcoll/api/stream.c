/*
 * A host stream: a queue of jobs and one worker thread that runs them in order.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/gpu.h"
#include "api/stream.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "watch/cross_wait.h"

typedef struct host_stream {
  struct coll_stream base;
  pthread_t worker;
  pthread_mutex_t lock;   /* guards all below */
  pthread_cond_t changed; /* a job was queued, a job ended, or closing is set */
  api_job_t *first, **last;
  bool busy; /* the worker runs a job */
  bool idle; /* the worker waits for a job */
  bool closing;
  coll_status_t failure; /* first failure since the last sync; later calls are dropped */
  char failure_text[COMM_ERROR_BYTES]; /* written by the worker only */
} host_stream_t;

base_handles_t api_host_streams = BASE_HANDLES(host_stream_t, "streams");

static host_stream_t *host(coll_stream_t stream) {
  return (host_stream_t *)(void *)stream;
}

void api_stream_begin(struct coll_stream *stream, api_stream_kind_t kind) {
  stream->process = getpid();
  atomic_store_explicit(&stream->tag, base_fork_tag + kind, memory_order_release);
}

static bool is_inherited(coll_stream_t stream) {
  return base_fork_inherited(base_handles_tag(&api_host_streams, stream)) == API_STREAM_HOST ||
         base_fork_inherited(base_handles_tag(&api_gpu_streams, stream)) == API_STREAM_GPU;
}

coll_status_t api_stream_check(coll_stream_t stream) {
  if (base_handles_tag(&api_host_streams, stream) == base_fork_tag + API_STREAM_HOST ||
      base_handles_tag(&api_gpu_streams, stream) == base_fork_tag + API_STREAM_GPU) {
    return COLL_OK;
  }
  if (is_inherited(stream)) {
    return base_fork_fail("the stream", stream->process, "a forked process makes its own");
  }
  return base_fail(COLL_ERROR_INVALID,
                   "%p is not a stream, or it was destroyed already: use what coll_stream_create "
                   "or coll_stream_from_cuda set, or NULL",
                   (void *)stream);
}

/* The caller holds the lock. A worker stops being idle at the moment at which a job is queued. */
static void set_idle(host_stream_t *stream, bool idle) {
  if (stream->idle == idle) return;
  stream->idle = idle;
  if (idle) {
    watch_cross_wait_idle_begin();
  } else {
    watch_cross_wait_idle_end();
  }
}

static api_job_t *take_job(host_stream_t *stream, coll_status_t *failure) {
  pthread_mutex_lock(&stream->lock);
  while (stream->first == NULL && !stream->closing) {
    set_idle(stream, true);
    pthread_cond_wait(&stream->changed, &stream->lock);
  }
  set_idle(stream, false);
  api_job_t *job = stream->first;
  if (job != NULL) {
    stream->first = job->next;
    if (stream->first == NULL) stream->last = &stream->first;
    stream->busy = true;
  }
  *failure = stream->failure;
  pthread_mutex_unlock(&stream->lock);
  return job;
}

static void note_failure(host_stream_t *stream, coll_status_t status) {
  pthread_mutex_lock(&stream->lock);
  if (status != COLL_OK && stream->failure == COLL_OK) {
    stream->failure = status;
    snprintf(stream->failure_text, sizeof stream->failure_text, "%s", base_last_error());
  }
  pthread_mutex_unlock(&stream->lock);
}

static void end_job(host_stream_t *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->busy = false;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
}

/* Runs the job's calls, or drops them if the stream has failed with `status`. All joins are arrived
 * at first, so that no stream waits for the calls of another one before it runs its own. */
static void run_job(host_stream_t *stream, api_job_t *job, coll_status_t status) {
  if (status != COLL_OK) {
    base_fail(status, "dropped behind a failed call of its stream: %s", stream->failure_text);
  }
  for (size_t i = 0; i < job->join_count; i++) run_join_arrive(job->joins[i], status);
  if (status != COLL_OK) {
    run_batch_drop(&job->batch, status);
  } else if (job->batch.call_count > 0) {
    note_failure(stream, run_batch_run(&job->batch, true));
  }
  for (size_t i = 0; i < job->join_count; i++) note_failure(stream, run_join_wait(job->joins[i]));
}

static void *work(void *argument) {
  host_stream_t *stream = argument;
  coll_status_t status;
  for (api_job_t *job; (job = take_job(stream, &status)) != NULL;) {
    run_job(stream, job, status);
    api_job_free(job);
    end_job(stream);
  }
  return NULL;
}

coll_status_t api_job_create(const run_call_t calls[], size_t count, run_join_t *const joins[],
                             size_t join_count, api_job_t **job) {
  api_job_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "a queued call", (void **)&made);
  if (status == COLL_OK && join_count > 0) {
    status = base_alloc(join_count, sizeof(run_join_t *), "a job's joins", (void **)&made->joins);
  }
  if (status == COLL_OK && count > 0) status = run_batch_create(calls, count, &made->batch);
  if (status != COLL_OK) {
    api_job_free(made);
    return status;
  }
  for (size_t i = 0; i < join_count; i++) made->joins[i] = joins[i];
  made->join_count = join_count;
  *job = made;
  return COLL_OK;
}

void api_job_free(api_job_t *job) {
  if (job == NULL) return;
  run_batch_discard(&job->batch);
  free(job->joins);
  free(job);
}

/* The caller holds the lock. */
static void queue(host_stream_t *stream, api_job_t *job) {
  run_batch_order(&job->batch);
  *stream->last = job;
  stream->last = &job->next;
  set_idle(stream, false);
  pthread_cond_broadcast(&stream->changed);
}

/* Tickets are drawn under the locks of all streams. Otherwise another thread could draw later
 * tickets and queue its jobs first, and these would wait for calls that are queued behind them. So
 * a job waits only for earlier tickets, and there is no cycle. */
void api_streams_push(const coll_stream_t streams[], api_job_t *const jobs[], size_t count,
                      run_batch_t *own) {
  for (size_t i = 0; i < count; i++) pthread_mutex_lock(&host(streams[i])->lock);
  run_batch_order(own);
  for (size_t i = 0; i < count; i++) queue(host(streams[i]), jobs[i]);
  for (size_t i = 0; i < count; i++) pthread_mutex_unlock(&host(streams[i])->lock);
}

coll_status_t api_stream_push(coll_stream_t stream, const run_call_t *call) {
  api_job_t *job;
  run_batch_t none = {0};
  coll_status_t status = api_job_create(call, 1, NULL, 0, &job);
  if (status != COLL_OK) {
    run_calls_drop(call, 1, status);
    return status;
  }
  api_streams_push(&stream, &job, 1, &none);
  return COLL_OK;
}

coll_status_t coll_stream_create(coll_stream_t *stream) {
  host_stream_t *made = NULL;
  if (stream == NULL) return base_fail(COLL_ERROR_INVALID, "coll_stream_create: stream is NULL");
  COLL_TRY(base_handles_new(&api_host_streams, (void **)&made));
  api_stream_begin(&made->base, API_STREAM_HOST);
  made->last = &made->first;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  int error = pthread_create(&made->worker, NULL, work, made);
  if (error != 0) {
    pthread_cond_destroy(&made->changed);
    pthread_mutex_destroy(&made->lock);
    base_handles_free(&api_host_streams, made);
    return base_fail(COLL_ERROR_SYSTEM, "cannot start a stream's worker thread: %s",
                     strerror(error));
  }
  *stream = &made->base;
  return COLL_OK;
}

/* The caller holds the lock. */
static bool is_at_work(const host_stream_t *stream) {
  return stream->first != NULL || stream->busy;
}

/* The caller holds the lock. */
static coll_status_t return_failure(const host_stream_t *stream) {
  if (stream->failure == COLL_OK) return COLL_OK;
  return base_fail(stream->failure, "%s", stream->failure_text);
}

coll_status_t coll_stream_query(coll_stream_t stream) {
  if (stream == NULL) return COLL_OK;
  COLL_TRY(api_stream_check(stream));
  if (api_stream_is_gpu(stream)) return api_gpu_stream_query(stream);
  host_stream_t *own = host(stream);
  pthread_mutex_lock(&own->lock);
  coll_status_t status = is_at_work(own) ? COLL_IN_PROGRESS : return_failure(own);
  pthread_mutex_unlock(&own->lock);
  return status;
}

coll_status_t coll_stream_sync(coll_stream_t stream) {
  if (stream == NULL) return base_fail(COLL_ERROR_INVALID, "coll_stream_sync: stream is NULL");
  COLL_TRY(api_stream_check(stream));
  if (api_stream_is_gpu(stream)) return api_gpu_stream_sync(stream);
  host_stream_t *own = host(stream);
  pthread_mutex_lock(&own->lock);
  while (is_at_work(own)) pthread_cond_wait(&own->changed, &own->lock);
  coll_status_t status = return_failure(own);
  own->failure = COLL_OK;
  pthread_mutex_unlock(&own->lock);
  return status;
}

static void end_worker(host_stream_t *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->closing = true;
  set_idle(stream, false);
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->worker, NULL);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->lock);
}

coll_status_t coll_stream_destroy(coll_stream_t stream) {
  if (stream == NULL || is_inherited(stream)) return COLL_OK;
  COLL_TRY(api_stream_check(stream));
  if (api_stream_is_gpu(stream)) return api_gpu_stream_destroy(stream);
  coll_status_t status = coll_stream_sync(stream);
  end_worker(host(stream));
  base_handles_free(&api_host_streams, stream);
  return status;
}
