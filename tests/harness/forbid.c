/*
 * Runs a program that may not make some system calls, as containers do it: by a filter of seccomp,
 * which its children inherit. Usage: forbid EPERM|ENOSYS|EINVAL|EACCES CALL[,CALL...] PROGRAM
 * [ARGUMENT...]. Exits with 77 if there is no such filter here.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS_MAX = 32, EXIT_WRONG = 2, EXIT_SKIP = 77 };

static const struct {
  const char *name;
  int number;
} calls[] = {
    {"accept4", SYS_accept4},
    {"close_range", SYS_close_range},
    {"epoll_create1", SYS_epoll_create1},
    {"eventfd2", SYS_eventfd2},
    {"get_mempolicy", SYS_get_mempolicy},
    {"getcpu", SYS_getcpu},
    {"getrandom", SYS_getrandom},
    {"io_uring_setup", SYS_io_uring_setup},
    {"kcmp", SYS_kcmp},
    {"madvise", SYS_madvise},
    {"mbind", SYS_mbind},
    {"membarrier", SYS_membarrier},
    {"memfd_create", SYS_memfd_create},
    {"mlock", SYS_mlock},
    {"perf_event_open", SYS_perf_event_open},
    {"pidfd_open", SYS_pidfd_open},
    {"poll", SYS_poll},
    {"prctl", SYS_prctl},
    {"prlimit64", SYS_prlimit64},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"ptrace", SYS_ptrace},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"sched_setscheduler", SYS_sched_setscheduler},
    {"sched_yield", SYS_sched_yield},
    {"sendmsg", SYS_sendmsg},
    {"set_mempolicy", SYS_set_mempolicy},
    {"setpriority", SYS_setpriority},
    {"statx", SYS_statx},
    {"sysinfo", SYS_sysinfo},
    {"userfaultfd", SYS_userfaultfd},
    {"waitid", SYS_waitid},
};

static const struct {
  const char *name;
  int number;
} errors[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {"EINVAL", EINVAL}, {"EACCES", EACCES}};

static int call_of(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    if (strlen(calls[i].name) == length && strncmp(calls[i].name, name, length) == 0) {
      return calls[i].number;
    }
  }
  return -1;
}

static int error_of(const char *name) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (strcmp(errors[i].name, name) == 0) return errors[i].number;
  }
  return 0;
}

/* Two instructions for each call, after one that loads the number of the call. */
static int install(const int numbers[], size_t count, int error) {
  struct sock_filter filter[2 * CALLS_MAX + 2];
  size_t length = 0;
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                  (unsigned)offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    filter[length++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i], 0, 1);
    filter[length++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
  int numbers[CALLS_MAX], error = argc < 4 ? 0 : error_of(argv[1]);
  size_t count = 0;
  if (error == 0) return EXIT_WRONG;
  for (const char *at = argv[2]; *at != '\0' && count < CALLS_MAX; count++) {
    size_t length = strcspn(at, ",");
    numbers[count] = call_of(at, length);
    if (numbers[count] < 0) {
      fprintf(stderr, "forbid: no system call '%s' is known\n", at);
      return EXIT_WRONG;
    }
    at += length + (at[length] == ',');
  }
  if (install(numbers, count, error) != 0) {
    perror("forbid: no filter");
    return EXIT_SKIP;
  }
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return EXIT_WRONG;
}
