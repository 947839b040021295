/*
 * Windows. One of memory of the host is a registration: the calls of coll.h find out themselves
 * what they can map. One of memory of a GPU needs all ranks.
 */
#include "frontends/nccl/windows.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/nccl/driver.h"
#include "frontends/nccl/group.h"

static const char register_function[] = "ncclCommWindowRegister";

struct ncclWindow_vidmem {
  base_handle_tag_t tag; /* base/fork.h */
  ncclComm_t comm;
  char *ptr;
  size_t bytes;
  coll_registration_t registration; /* of memory of the host */
  coll_window_t window;             /* of memory of a GPU */
  /* The fields below are of a window whose group has not ended. */
  ncclWindow_t *out; /* where the program wants it; NULL: it is in no group */
  ncclWindow_t next;
};

static base_handles_t windows = BASE_HANDLES(struct ncclWindow_vidmem, "windows");

static ncclResult_t check_window(ncclWindow_t window, const char *function) {
  if (base_handles_tag(&windows, window) == base_fork_tag + NCCL_TAG_WINDOW) return ncclSuccess;
  if (window == NULL) {
    return nccl_fail(ncclInvalidArgument, "%s: the window is NULL", function);
  }
  return nccl_fail(ncclInvalidUsage, "%s: %p is no window of this process, or it was deregistered",
                   function, (void *)window);
}

/* ---- windows of a group -----------------------------------------------------------------------*/

ncclWindow_t *nccl_window_next(ncclWindow_t window) {
  return &window->next;
}

/* The windows of one communicator, in their order, by a thread of their own. */
typedef struct maker {
  ncclWindow_t first; /* of the whole group */
  ncclComm_t comm;
  ncclResult_t result;
  char text[NCCL_TEXT_BYTES];
  pthread_t thread;
} maker_t;

static void *make_those_of(void *argument) {
  maker_t *maker = argument;
  ncclComm_t comm = maker->comm;
  bool on_gpu = nccl_driver_enter(comm->device);
  for (ncclWindow_t each = maker->first; each != NULL; each = each->next) {
    if (each->comm != comm || maker->result != ncclSuccess) continue;
    maker->result = nccl_result(
        coll_window_create(comm->comm, each->ptr, each->bytes, &each->window), register_function);
  }
  if (on_gpu) nccl_driver_leave(comm->device);
  if (maker->result != ncclSuccess)
    snprintf(maker->text, sizeof maker->text, "%s", nccl_last_text());
  return NULL;
}

static bool is_first_of_comm(ncclWindow_t first, ncclWindow_t window) {
  while (first->comm != window->comm) first = first->next;
  return first == window;
}

/* Ends the list. Those that were not made are NULL for the program. */
static void finish_all(ncclWindow_t first) {
  for (ncclWindow_t each = first, next; each != NULL; each = next) {
    next = each->next;
    nccl_handle_release(each->comm);
    if (each->window == NULL) {
      *each->out = NULL;
      base_handles_free(&windows, each);
    } else {
      each->next = NULL;
      each->out = NULL;
    }
  }
}

void nccl_windows_drop(ncclWindow_t first) {
  finish_all(first);
}

/* The other ranks wait in the creation of a window that this one never begins. */
static void give_up(ncclComm_t comm) {
  (void)coll_comm_abort(comm->comm);
}

static ncclResult_t run_makers(ncclWindow_t first, maker_t *makers) {
  ncclResult_t result = ncclSuccess;
  int started = 0;
  for (ncclWindow_t each = first; each != NULL; each = each->next) {
    if (!is_first_of_comm(first, each)) continue;
    maker_t *maker = &makers[started];
    *maker = (maker_t){.first = first, .comm = each->comm};
    if (pthread_create(&maker->thread, NULL, make_those_of, maker) == 0) {
      started++;
    } else {
      result = nccl_fail(ncclSystemError, "%s: no thread for a window", register_function);
      give_up(each->comm);
    }
  }
  for (int i = 0; i < started; i++) {
    pthread_join(makers[i].thread, NULL);
    if (result == ncclSuccess && makers[i].result != ncclSuccess) {
      result = nccl_repeat(makers[i].result, makers[i].text);
    }
  }
  return result;
}

ncclResult_t nccl_windows_make_all(ncclWindow_t first) {
  size_t count = 0;
  if (first == NULL) return ncclSuccess;
  for (ncclWindow_t each = first; each != NULL; each = each->next) count++;
  ncclResult_t result;
  maker_t *makers = calloc(count, sizeof *makers);
  if (makers != NULL) {
    result = run_makers(first, makers);
  } else {
    result = nccl_fail(ncclSystemError, "%s: no memory", register_function);
    for (ncclWindow_t each = first; each != NULL; each = each->next) give_up(each->comm);
  }
  free(makers);
  finish_all(first);
  return result;
}

/* ---- functions --------------------------------------------------------------------------------*/

/* A thread that aborts the communicator meanwhile finds it in use, and does not free it. */
static ncclResult_t make_now(ncclWindow_t made) {
  ncclComm_t comm = made->comm;
  nccl_handle_use(comm);
  coll_status_t status = coll_window_create(comm->comm, made->ptr, made->bytes, &made->window);
  ncclResult_t result = nccl_result(status, register_function);
  nccl_handle_release(comm);
  return result;
}

/* Memory of the host needs nothing of the other ranks, so it does not wait for them. */
static ncclResult_t make_window(ncclWindow_t made, ncclWindow_t *out) {
  ncclComm_t comm = made->comm;
  if (nccl_driver_memory(made->ptr) != NCCL_MEMORY_DEVICE) {
    return nccl_window_register(comm, made->ptr, made->bytes, register_function,
                                &made->registration);
  }
  ncclResult_t result = nccl_handle_check_ready(comm, register_function);
  if (result != ncclSuccess) return result;
  if (!nccl_group_is_open()) return make_now(made);
  made->out = out;
  nccl_handle_use(comm);
  nccl_group_add_window(made);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *ptr, size_t bytes, ncclWindow_t *window,
                                    int flags) {
  (void)flags; /* they say how a GPU may use the window */
  if (window == NULL) {
    return nccl_group_note(nccl_fail(ncclInvalidArgument, "%s: win is NULL", register_function));
  }
  ncclWindow_t made;
  if (base_handles_new(&windows, (void **)&made) != COLL_OK) {
    return nccl_group_note(nccl_fail(ncclSystemError, "%s: no memory", register_function));
  }
  made->comm = comm;
  made->ptr = ptr;
  made->bytes = bytes;
  atomic_store_explicit(&made->tag, base_fork_tag + NCCL_TAG_WINDOW, memory_order_release);
  ncclResult_t result = make_window(made, window);
  if (result == ncclSuccess) {
    *window = made;
  } else {
    base_handles_free(&windows, made);
  }
  return nccl_group_note(result);
}
NCCL_ALIAS(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  ncclResult_t result = nccl_handle_check(comm, "ncclCommWindowDeregister");
  if (result != ncclSuccess || window == NULL) return result;
  result = check_window(window, "ncclCommWindowDeregister");
  if (result != ncclSuccess) return result;
  if (window->out != NULL) {
    return nccl_fail(ncclInvalidUsage,
                     "ncclCommWindowDeregister: the window is made when its group ends: call "
                     "ncclGroupEnd first");
  }
  coll_status_t status = coll_window_destroy(window->window);
  if (window->registration != NULL) status = coll_mem_deregister(window->registration);
  base_handles_free(&windows, window);
  return nccl_result(status, "ncclCommWindowDeregister");
}
NCCL_ALIAS(ncclCommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr) {
  ncclResult_t result = nccl_handle_check(comm, "ncclWinGetUserPtr");
  if (result == ncclSuccess) result = check_window(window, "ncclWinGetUserPtr");
  if (result != ncclSuccess) return result;
  if (ptr == NULL) {
    return nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: the output is NULL");
  }
  *ptr = window->ptr;
  return ncclSuccess;
}
NCCL_ALIAS(ncclWinGetUserPtr);

/* This rank's own memory at the offset; that of others cannot be mapped by a program. */
static ncclResult_t own_pointer(ncclWindow_t window, size_t offset, int rank, int own, void **ptr,
                                const char *function) {
  if (ptr == NULL || offset > window->bytes) {
    return nccl_fail(ncclInvalidArgument, "%s: %s", function,
                     ptr == NULL ? "the output is NULL" : "the offset is beyond the window's end");
  }
  if (rank != own) {
    return nccl_fail(ncclInvalidUsage, "%s: this library gives no access to other ranks' windows",
                     function);
  }
  *ptr = window->ptr + offset;
  return ncclSuccess;
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsa_rank, void **ptr) {
  const char *function = "ncclGetLsaDevicePointer";
  ncclResult_t result = check_window(window, function);
  return result != ncclSuccess ? result : own_pointer(window, offset, lsa_rank, 0, ptr, function);
}
NCCL_ALIAS(ncclGetLsaDevicePointer);

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **ptr) {
  const char *function = "ncclGetPeerDevicePointer";
  ncclResult_t result = check_window(window, function);
  if (result == ncclSuccess) result = nccl_handle_check(window->comm, function);
  if (result != ncclSuccess) return result;
  return own_pointer(window, offset, peer, window->comm->rank, ptr, function);
}
NCCL_ALIAS(ncclGetPeerDevicePointer);
