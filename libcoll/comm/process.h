/*
 * The list of this process's communicators. Checks of one communicator may need the others: a rank
 * that another one waits for may itself wait in a third communicator.
 */
#ifndef COMM_PROCESS_H
#define COMM_PROCESS_H

#include <stdbool.h>

struct coll_comm;

/* add: before the communicator is returned to the program. remove: before it is freed. */
void comm_process_add(struct coll_comm *comm);
void comm_process_remove(struct coll_comm *comm);

/* Visits the process's communicators in order of creation, until a visit returns false. None of
 * them is freed meanwhile. A visit reads only fields that any thread may read, does not block, and
 * neither makes nor destroys communicators. */
typedef bool (*comm_process_visit_t)(struct coll_comm *comm, void *context);
void comm_process_each(comm_process_visit_t visit, void *context);

/* The number of threads of this process; 0 if unknown. */
int comm_process_threads(void);

#endif
