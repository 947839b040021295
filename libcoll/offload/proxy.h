/*
 * Calls on GPUs that cannot access each other's memory: those of several hosts, and those of a host
 * without peer access. A call is staged: its stream copies the data to pinned memory, a thread (the
 * proxy) carries the call out there with the host's engine and transports, and the stream copies
 * the result back. Large calls are cut into pieces, so that copies and the network overlap.
 *
 *   stream  copy in 0 | post 0 | copy in 1 | post 1 | ... | wait 0 | copy out 0 | copy in 3 | ...
 *   proxy                run 0                run 1    ...
 *
 * A post is a host function of the stream, which puts the piece into the proxy's queue and does
 * nothing else; a wait is cuStreamWaitValue on a word that the proxy stores. So a captured graph
 * posts its pieces again with every launch, and nothing waits on the host but the proxy.
 *
 * The proxy has a communicator of its own, of the same ranks: its calls have their own order, and
 * hold no lock that a call on the host needs.
 */
#ifndef OFFLOAD_PROXY_H
#define OFFLOAD_PROXY_H

#include "device/cuda/driver.h"
#include "device/cuda/exchange.h"
#include "run/call.h"

struct offload;
typedef struct offload_proxy offload_proxy_t;

/* Whether calls on GPUs of this communicator go through a proxy whatever its GPUs can: it has a
 * rank that shares no memory with this one. The same on all ranks. */
bool offload_proxy_serves(const struct coll_comm *comm);

/* Makes gpu->proxy, with its pinned memory; gpu->driver and gpu->device are set. The caller frees
 * it with offload_proxy_free. COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM, COLL_ERROR_UNSUPPORTED. */
coll_status_t offload_proxy_create(struct offload *gpu);

/* Starts the proxy, which connects with the proxies of the other ranks. All ranks start theirs; a
 * thread that holds several ranks starts all before it awaits one. After a failure the communicator
 * is aborted, for the others would wait. */
coll_status_t offload_proxy_start(offload_proxy_t *proxy);
coll_status_t offload_proxy_await(offload_proxy_t *proxy);

/* Prints that the proxy serves, for the reason `why`. */
void offload_proxy_report(const offload_proxy_t *proxy, const char *why);

/* Queue a collective, and a group of sends and receives. The caller holds the communicator's lock.
 * scalar: of a premul-sum. Everything but users' buffers is read before they return. After a
 * failure a part may be queued: the caller ends the communicator, and calls offload_proxy_abort. */
coll_status_t offload_proxy_collective(offload_proxy_t *proxy, const run_call_t *call,
                                       uint64_t scalar, cuda_stream_t stream);
coll_status_t offload_proxy_exchange(offload_proxy_t *proxy, const gpu_transfer_t transfers[],
                                     size_t count, cuda_stream_t stream);

/* Ends the proxy's calls for the reason for which the communicator was aborted; streams that wait
 * for them go on. Any thread. */
void offload_proxy_abort(offload_proxy_t *proxy);

/* COLL_IN_PROGRESS until the last call has ended, captured ones aside; a failure: the GPU's context
 * is lost. The caller holds the communicator's lock. */
coll_status_t offload_proxy_query(const offload_proxy_t *proxy);

/* The event behind that call, or behind a later one once there is one; NULL: there was none. It
 * lives as long as the proxy. The caller holds the communicator's lock. */
cuda_event_t offload_proxy_last(const offload_proxy_t *proxy);

/* The same as offload_proxy_query, of an event of offload_proxy_last. Any thread. */
coll_status_t offload_proxy_query_event(const offload_proxy_t *proxy, cuda_event_t event);

/* The algorithm of the latest call of the collective that was carried out; NULL: none, or it is of
 * no plan. Any thread. */
const algo_t *offload_proxy_used(const offload_proxy_t *proxy, coll_collective_t collective);

/* Whether the thread has a call to carry out, or does so. Any thread. */
bool offload_proxy_has_jobs(offload_proxy_t *proxy);

/* Waits for all calls that were queued, and makes the checks before a communicator is destroyed.
 * The caller holds the communicator's lock. */
coll_status_t offload_proxy_finish(offload_proxy_t *proxy);

/* Ends the thread and frees all. NULL: does nothing. */
void offload_proxy_free(offload_proxy_t *proxy);

#endif
