/*
 * The communicators of this process. What a thread finds out about its own communicator may depend
 * on the others: a rank that another one waits for may itself wait in a third communicator.
 */
#ifndef COMM_PROCESS_H
#define COMM_PROCESS_H

#include <stdbool.h>

struct coll_comm;

/* The communicator is about to be returned to the program; it is about to be freed. */
void comm_process_add(struct coll_comm *comm);
void comm_process_remove(struct coll_comm *comm);

/* Visits the process's communicators in the order in which they were made, until a visit returns
 * false. None of them is freed meanwhile: a visit reads what any thread may read, waits for nothing
 * and neither makes nor destroys communicators. */
typedef bool (*comm_process_visit_t)(struct coll_comm *comm, void *context);
void comm_process_each(comm_process_visit_t visit, void *context);

#endif
