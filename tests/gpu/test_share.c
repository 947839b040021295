/*
 * Memory that one process exports and another imports: each rank is a process of its own.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "device/cuda/memory.h"
#include "gpu/gpu.h"
#include "harness/harness.h"

#define TIMEOUT_MS 10000

TestSuite(share, .timeout = 60);

/* As an assertion, for the bodies of ranks. */
#define TRY(call)                                                             \
  do {                                                                        \
    if ((call) != 0) return harness_fail("%s: %s", #call, base_last_error()); \
  } while (0)
#define EXPECT(condition)                                            \
  do {                                                               \
    if (!(condition)) return harness_fail("not so: %s", #condition); \
  } while (0)

static bool send_descriptor(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message, 0) == 1;
}

static int receive_descriptor(int socket) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  int descriptor = -1;
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header != NULL) memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

static int clean(void) {
  char text[256];
  if (standin_leaks(text, sizeof text) > 0) return harness_fail("left: %s", text);
  return standin_misuses() == 0 ? 0 : harness_fail("misuse");
}

/* Copies between memory and a variable, on a device. */
static int copy(const cuda_driver_t *driver, int device, cuda_ptr_t dst, cuda_ptr_t src,
                size_t bytes) {
  TRY(cuda_context_enter(driver, device));
  cuda_result_t result = driver->cuMemcpyAsync(dst, src, bytes, NULL);
  if (result == CUDA_RESULT_OK) result = driver->cuStreamSynchronize(NULL);
  cuda_context_leave(driver, device);
  return (int)cuda_driver_check(driver, result, "cuMemcpyAsync", device);
}

#define PTR(variable) ((cuda_ptr_t)(uintptr_t) & (variable))

static int share(int rank, int size, void *context) {
  const int *sockets = context;
  const cuda_driver_t *driver;
  cuda_memory_t memory;
  int descriptor;
  (void)size;
  TRY(cuda_driver_load(&driver));
  if (rank == 0) {
    TRY(cuda_memory_alloc(driver, 0, 3 * STANDIN_GRANULARITY, &memory));
    TRY(cuda_memory_export(driver, &memory, &descriptor));
    EXPECT(send_descriptor(sockets[0], descriptor));
  } else {
    descriptor = receive_descriptor(sockets[1]);
    TRY(cuda_memory_import(driver, 1, descriptor, 3 * STANDIN_GRANULARITY, &memory));
    EXPECT(memory.device == 0);
  }
  close(descriptor);
  uint64_t mine = 0x1234567800000000u + (uint64_t)rank, theirs = 0;
  cuda_ptr_t slots[] = {memory.address, memory.address + memory.bytes - 8};
  TRY(copy(driver, rank, slots[rank], PTR(mine), sizeof mine));
  harness_barrier();
  TRY(copy(driver, rank, PTR(theirs), slots[1 - rank], sizeof theirs));
  EXPECT(theirs == 0x1234567800000000u + (uint64_t)(1 - rank));
  harness_barrier();
  /* The owner may free first: the memory lives as long as it is mapped. */
  if (rank == 0) TRY(cuda_memory_free(driver, &memory));
  harness_barrier();
  if (rank == 1) {
    TRY(copy(driver, rank, PTR(theirs), slots[1], sizeof theirs));
    EXPECT(theirs == mine);
    TRY(cuda_memory_free(driver, &memory));
  }
  return clean();
}

static void run_pair(harness_body_t body) {
  harness_result_t result;
  int sockets[2];
  cr_assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
  cr_assert(harness_run(2, TIMEOUT_MS, body, sockets, &result), "%s", result.text);
  close(sockets[0]);
  close(sockets[1]);
}

Test(share, two_processes_use_one_memory) {
  run_pair(share);
}

/* Rank 0 exports memory of GPU 0; rank 1 sees GPU 1 alone, as its GPU 0. */
static int import_hidden(int rank, int size, void *context) {
  const int *sockets = context;
  const cuda_driver_t *driver;
  cuda_memory_t memory;
  int descriptor;
  (void)size;
  if (rank == 1) setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  TRY(cuda_driver_load(&driver));
  if (rank == 0) {
    TRY(cuda_memory_alloc(driver, 0, 1, &memory));
    TRY(cuda_memory_export(driver, &memory, &descriptor));
    EXPECT(send_descriptor(sockets[0], descriptor));
    TRY(cuda_memory_free(driver, &memory));
  } else {
    descriptor = receive_descriptor(sockets[1]);
    TRY(cuda_memory_import(driver, 0, descriptor, STANDIN_GRANULARITY, &memory));
    EXPECT(memory.device == CUDA_NO_DEVICE);
    EXPECT(*(const char *)(uintptr_t)memory.address == 0);
    TRY(cuda_memory_free(driver, &memory));
  }
  close(descriptor);
  return clean();
}

Test(share, memory_of_a_hidden_device) {
  run_pair(import_hidden);
}

Test(share, devices_without_peer_access_are_named) {
  gpu_setting("COLL_STANDIN_PEERS", "0");
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory, imported;
  int descriptor;
  GPU_OK(cuda_memory_alloc(driver, 0, 1, &memory));
  GPU_OK(cuda_memory_export(driver, &memory, &descriptor));
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "GPU 1 cannot access the memory of GPU 0",
            cuda_memory_import(driver, 1, descriptor, memory.bytes, &imported));
  cr_assert(imported.address == 0);
  GPU_OK(cuda_memory_free(driver, &memory));
  close(descriptor);
  gpu_expect_clean();
}

Test(share, other_descriptors_are_refused) {
  const cuda_driver_t *driver = gpu_driver();
  cuda_memory_t memory;
  int ends[2];
  cr_assert(pipe(ends) == 0);
  GPU_FAILS(COLL_ERROR_SYSTEM, "CUDA_ERROR_INVALID_VALUE",
            cuda_memory_import(driver, 0, ends[0], STANDIN_GRANULARITY, &memory));
  GPU_FAILS(COLL_ERROR_SYSTEM, "CUDA_ERROR_INVALID_VALUE",
            cuda_memory_import(driver, 0, -1, STANDIN_GRANULARITY, &memory));
  GPU_OK(cuda_memory_alloc(driver, 0, 1, &memory));
  int descriptor;
  cuda_memory_t larger;
  GPU_OK(cuda_memory_export(driver, &memory, &descriptor));
  GPU_FAILS(COLL_ERROR_SYSTEM, "cuMemMap on GPU 0",
            cuda_memory_import(driver, 0, descriptor, 2 * memory.bytes, &larger));
  GPU_OK(cuda_memory_free(driver, &memory));
  close(ends[0]);
  close(ends[1]);
  close(descriptor);
  gpu_expect_clean();
}

/* The older way: CUDA IPC of cuMemAlloc's memory. */
static int share_ipc(int rank, int size, void *context) {
  const cuda_driver_t *driver;
  cuda_ipc_handle_t *board = harness_board();
  cuda_ptr_t address;
  uint32_t value = 0;
  (void)size, (void)context;
  TRY(cuda_driver_load(&driver));
  TRY(cuda_context_enter(driver, rank));
  if (rank == 0) {
    TRY(driver->cuMemAlloc(&address, 4096));
    TRY(driver->cuMemsetD32Async(address, 77, 1024, NULL));
    TRY(driver->cuStreamSynchronize(NULL));
    TRY(driver->cuIpcGetMemHandle(board, address));
  }
  harness_barrier();
  if (rank == 1) {
    TRY(driver->cuIpcOpenMemHandle(&address, *board, CUDA_IPC_LAZY_PEER_ACCESS));
    TRY(copy(driver, 1, PTR(value), address + 4092, 4));
    EXPECT(value == 77);
    TRY(driver->cuIpcCloseMemHandle(address));
  }
  harness_barrier();
  if (rank == 0) TRY(driver->cuMemFree(address));
  cuda_context_leave(driver, rank);
  return clean();
}

Test(share, two_processes_use_one_allocation_by_ipc) {
  run_pair(share_ipc);
}
