/*
 * What addresses a front end gives the library. Preloaded into a program whose front end is linked
 * with libcoll.so: each call of a verb is noted and goes on to the library. given.py reads the
 * notes.
 */
#include <coll.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NOTES_MAX 256 /* further ones are dropped */

typedef struct given {
  char verb[16];
  const void *send, *recv; /* NULL: the call has none */
} given_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static given_t notes[NOTES_MAX];
static int count;

/* Removes all notes and copies up to `max` of them, the oldest ones. Returns their number. */
COLL_API int given_take(given_t *to, int max);
int given_take(given_t *to, int max) {
  pthread_mutex_lock(&lock);
  int taken = count < max ? count : max;
  for (int i = 0; i < taken; i++) to[i] = notes[i];
  count = 0;
  pthread_mutex_unlock(&lock);
  return taken;
}

static void note(const char *verb, const void *send, const void *recv) {
  pthread_mutex_lock(&lock);
  if (count < NOTES_MAX) {
    given_t *given = &notes[count++];
    *given = (given_t){.send = send, .recv = recv};
    snprintf(given->verb, sizeof given->verb, "%s", verb);
  }
  pthread_mutex_unlock(&lock);
}

/* The library's own function. Python loads the library for itself alone, so it is not among what
 * RTLD_NEXT finds. */
static void *library_function(const char *name) {
  void *library = dlopen("libcoll.so.0", RTLD_LAZY | RTLD_NOLOAD);
  void *function = library != NULL ? dlsym(library, name) : NULL;
  if (function == NULL) {
    fprintf(stderr, "given: no %s: %s\n", name, dlerror());
    abort();
  }
  return function;
}

/* A verb with the parameters and arguments given in parentheses. */
#define VERB(verb, sent, received, parameters, arguments)  \
  COLL_API coll_status_t coll_##verb parameters {          \
    coll_status_t(*function) parameters;                   \
    *(void **)&function = library_function("coll_" #verb); \
    note(#verb, sent, received);                           \
    return function arguments;                             \
  }
#define END coll_comm_t comm, coll_stream_t stream

VERB(allreduce, send, recv,
     (const void *send, void *recv, size_t n, coll_dtype_t dtype, coll_op_t op, END),
     (send, recv, n, dtype, op, comm, stream))
VERB(reduce, send, recv,
     (const void *send, void *recv, size_t n, coll_dtype_t dtype, coll_op_t op, int root, END),
     (send, recv, n, dtype, op, root, comm, stream))
VERB(reduce_scatter, send, recv,
     (const void *send, void *recv, size_t n, coll_dtype_t dtype, coll_op_t op, END),
     (send, recv, n, dtype, op, comm, stream))
VERB(allgather, send, recv, (const void *send, void *recv, size_t n, coll_dtype_t dtype, END),
     (send, recv, n, dtype, comm, stream))
VERB(broadcast, send, recv,
     (const void *send, void *recv, size_t n, coll_dtype_t dtype, int root, END),
     (send, recv, n, dtype, root, comm, stream))
VERB(gather, send, recv,
     (const void *send, void *recv, size_t n, coll_dtype_t dtype, int root, END),
     (send, recv, n, dtype, root, comm, stream))
VERB(scatter, send, recv,
     (const void *send, void *recv, size_t n, coll_dtype_t dtype, int root, END),
     (send, recv, n, dtype, root, comm, stream))
VERB(alltoall, send, recv, (const void *send, void *recv, size_t n, coll_dtype_t dtype, END),
     (send, recv, n, dtype, comm, stream))
VERB(alltoallv, send, recv,
     (const void *send, const size_t sends[], const size_t send_displs[], void *recv,
      const size_t recvs[], const size_t recv_displs[], coll_dtype_t dtype, END),
     (send, sends, send_displs, recv, recvs, recv_displs, dtype, comm, stream))
VERB(send, send, NULL, (const void *send, size_t n, coll_dtype_t dtype, int peer, END),
     (send, n, dtype, peer, comm, stream))
VERB(recv, NULL, recv, (void *recv, size_t n, coll_dtype_t dtype, int peer, END),
     (recv, n, dtype, peer, comm, stream))
