/*
 * Communicators that threads of their own make: non-blocking ones, and those of a group. A job is
 * one thread. It makes one rank of a communicator, or splits one communicator as often as a group
 * does, in order.
 *
 * The user's handle exists before its communicator: it is allocated at once, and the job makes the
 * communicator in it. Its tag says what state it is in, so that calls on a communicator
 * that is ready need not look further: COMM_CREATING until the job is done, then COMM_LIVE
 * or COMM_NOT_MADE. The communicator that a non-blocking split splits is
 * COMM_SPLITTING meanwhile.
 */
#ifndef LIFETIME_ASYNC_H
#define LIFETIME_ASYNC_H

#include "lifetime/create.h"
#include "lifetime/split.h"

typedef struct lifetime_async lifetime_async_t;

/* Prepares a job that calls lifetime_create with these arguments, and its handle. The caller owns a
 * reference to the job (lifetime_async_release). */
coll_status_t lifetime_async_create(const rendezvous_address_t *address, int rank, int size,
                                    const comm_settings_t *settings, lifetime_async_t **job,
                                    struct coll_comm **handle);

/* Prepares a job that splits the parent, as often as lifetime_async_split_add is called. */
coll_status_t lifetime_async_split(struct coll_comm *parent, lifetime_async_t **job);

/* Adds a split to it. *handle is NULL if the color is negative. */
coll_status_t lifetime_async_split_add(lifetime_async_t *job, int color, int key,
                                       const comm_split_settings_t *settings,
                                       struct coll_comm **handle);

/* The communicator that the job splits; NULL: it creates one. */
struct coll_comm *lifetime_async_parent(const lifetime_async_t *job);

/* Starts the job's thread. If there can be none, the job fails. in_background: the job's parent
 * cannot be used until the job is done. */
void lifetime_async_start(lifetime_async_t *job, bool in_background);

/* Carries out the job in the calling thread. */
void lifetime_async_run(lifetime_async_t *job);

/* Waits until the job is done. Returns its first failure, which becomes the thread's last error.
 * *order: its place among the failures of the process's jobs, in time. */
coll_status_t lifetime_async_wait(lifetime_async_t *job, uint64_t *order);

/* Drops the caller's reference. */
void lifetime_async_release(lifetime_async_t *job);

/* Waits for the calls made on the communicator, which takes no more, and makes the checks of
 * lifetime_leave; in the background, with COLL_IN_PROGRESS, if its creation did not block either.
 */
coll_status_t lifetime_async_finalize(struct coll_comm *comm);

/* Ends the communicator, or its creation, which then ends soon, on all ranks. `why` goes into their
 * error texts: "it called coll_comm_abort". COLL_ERROR_INVALID: it is no handle. */
coll_status_t lifetime_async_abort(struct coll_comm *comm, const char *why);

/* Waits until no job uses the handle. Aborts a creation; other jobs are waited for.
 * COLL_ERROR_INVALID: it is no handle, or it is the job's own thread that calls. */
coll_status_t lifetime_async_finish(struct coll_comm *comm, const char *why);

/* What the finalization of the communicator found, unless a call has returned it; no job uses it.
 */
coll_status_t lifetime_async_unreturned(const struct coll_comm *comm);

/* Makes a communicator that is ready independent of the job that made it; frees a handle that could
 * not be made, and returns NULL. Returns the communicator otherwise. No job uses it. */
struct coll_comm *lifetime_async_detach(struct coll_comm *comm);

/* Frees a handle whose job was never started. */
void lifetime_async_discard(struct coll_comm *handle);

#endif
