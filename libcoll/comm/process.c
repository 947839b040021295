/*
 * An intrusive list, so that adding a communicator cannot fail. The lock is held during all visits.
 */
#include "comm/process.h"

#include <dirent.h>
#include <pthread.h>

#include "base/fork.h"
#include "comm/comm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct coll_comm *first, *last; /* guarded by lock */

static void forget(void) {
  first = last = NULL;
}
BASE_FORK_PART(&lock, forget);

void comm_process_add(struct coll_comm *comm) {
  comm_link_t *own = &comm->link;
  pthread_mutex_lock(&lock);
  own->next = NULL;
  own->previous = last;
  own->listed = true;
  *(last != NULL ? &last->link.next : &first) = comm;
  last = comm;
  pthread_mutex_unlock(&lock);
}

void comm_process_remove(struct coll_comm *comm) {
  comm_link_t *own = &comm->link;
  if (!own->listed) return;
  pthread_mutex_lock(&lock);
  *(own->previous != NULL ? &own->previous->link.next : &first) = own->next;
  *(own->next != NULL ? &own->next->link.previous : &last) = own->previous;
  own->listed = false;
  pthread_mutex_unlock(&lock);
}

void comm_process_each(comm_process_visit_t visit, void *context) {
  pthread_mutex_lock(&lock);
  for (struct coll_comm *comm = first; comm != NULL; comm = comm->link.next) {
    if (!visit(comm, context)) break;
  }
  pthread_mutex_unlock(&lock);
}

int comm_process_threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 0;
  for (const struct dirent *task; (task = readdir(tasks)) != NULL;) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}
