/*
 * The queues of host streams.
 */
#ifndef API_STREAM_H
#define API_STREAM_H

#include "run/batch.h"

/* What a stream carries out of one group, or one call. */
typedef struct api_job {
  run_batch_t batch;  /* the calls that its worker runs; may be empty */
  run_join_t **joins; /* owned array: of all communicators that use the stream beside others */
  size_t join_count;
  struct api_job *next;
} api_job_t;

/* Numbers of tags (base/fork.h); the states of communicators are others. */
typedef enum api_stream_kind { API_STREAM_HOST = 128, API_STREAM_GPU } api_stream_kind_t;

/* Every stream begins with this; what follows depends on its kind. */
struct coll_stream {
  base_handle_tag_t tag; /* of an api_stream_kind_t; 0: destroyed */
  pid_t process;         /* that made it */
};

/* Where the streams of each kind are that users hold. */
extern base_handles_t api_host_streams, api_gpu_streams;

/* Of a stream that was checked, or that stands for a communicator's own. */
static inline bool api_stream_is(coll_stream_t stream, api_stream_kind_t kind) {
  return atomic_load_explicit(&stream->tag, memory_order_relaxed) == base_fork_tag + kind;
}

/* COLL_ERROR_INVALID unless `stream` is a live stream of this process. */
coll_status_t api_stream_check(coll_stream_t stream);

void api_stream_begin(struct coll_stream *stream, api_stream_kind_t kind);

/* Makes a job of copies of the calls, which the caller owns until the job is pushed. */
coll_status_t api_job_create(const run_call_t calls[], size_t count, run_join_t *const joins[],
                             size_t join_count, api_job_t **job);

/* Frees a job that was not pushed; NULL is ignored. */
void api_job_free(api_job_t *job);

/* Queues jobs[i] on streams[i], which takes it over, with its calls. The streams are distinct and
 * in the order of their addresses. Also orders the batch `own`, which the caller will run at once.
 */
void api_streams_push(const coll_stream_t streams[], api_job_t *const jobs[], size_t count,
                      run_batch_t *own);

/* Queues one call. Takes over its blocks, also on failure. */
coll_status_t api_stream_push(coll_stream_t stream, const run_call_t *call);

#endif
