/*
 * isolate COMMAND [ARGUMENTS]: runs a test with a network, processes, named network namespaces and
 * shared memory of its own, and a folder for temporary files. So tests that run at the same time
 * cannot take each other's ports or addresses, and what a test leaves behind ends with it.
 * tools/test runs each test program under it.
 *
 * The network has a loopback interface and, where `ip` is installed, one with the address
 * 10.213.0.1. The command is not process 1, which would ignore signals that it sends to itself:
 * that is this program, which waits for it.
 *
 * At the end the processor time of all its processes is printed. Exit code: the command's; 128 + N
 * if signal N ended it; 1 if processes outlive the command (they are printed, and killed); 125 if
 * the kernel refuses the namespaces. Without a command: 0 where the kernel permits them.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REFUSED 125
/* A process that was sent SIGKILL needs its turn on a core until it has ended. */
#define LEFT_OVER_SECONDS 10

static _Noreturn void refuse(const char *what) {
  fprintf(stderr, "isolate: %s: %s\n", what, strerror(errno));
  exit(REFUSED);
}

static void raise_loopback(void) {
  struct ifreq request = {.ifr_name = "lo"};
  int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0 || ioctl(s, SIOCGIFFLAGS, &request) != 0) refuse("lo");
  request.ifr_flags |= IFF_UP;
  if (ioctl(s, SIOCSIFFLAGS, &request) != 0) refuse("lo");
  close(s);
}

/* Criterion has a socket in /tmp whose name contains its process id: the namespace begins with ids
 * that others which run at this time do not use. Ids of this machine are unique, and the factor
 * sets neighbours apart. */
static void set_first_pid(pid_t unique) {
  FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "w");
  if (file == NULL) return;
  fprintf(file, "%d", (int)((long)unique * 61 % 30000 + 1000));
  fclose(file);
}

/* Runs a command and ignores how it ends. */
static void try_command(const char *const arguments[]) {
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    execvp(arguments[0], (char *const *)arguments);
    _exit(1);
  }
  if (pid > 0) waitpid(pid, NULL, 0);
}

static void add_interface(void) {
  try_command((const char *[]){"ip", "link", "add", "host0", "up", "type", "veth", "peer", "name",
                               "host1", NULL});
  try_command((const char *[]){"ip", "link", "set", "host1", "up", NULL});
  try_command((const char *[]){"ip", "address", "add", "10.213.0.1/24", "dev", "host0", NULL});
}

/* Mounts that others see must not change. */
static void mount_own(void) {
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) refuse("/");
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) refuse("/proc");
  mkdir("/run/netns", 0755);
  if (mount("tmpfs", "/run/netns", "tmpfs", 0, NULL) != 0) refuse("/run/netns");
  /* Names there contain process ids, which are no longer unique on the machine. */
  if (mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL) != 0) refuse("/dev/shm");
}

/* ---- the command's processes ----------------------------------------------------------------*/

/* Prints a running process. False if it has ended. */
static bool show_process(const char *pid) {
  char path[300], line[400] = "";
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  const char *name_end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
  fclose(file);
  if (name_end == NULL || strchr("ZX", name_end[2]) != NULL) return false; /* ") S ...": state S */
  printf("# left over: process %.*s\n", (int)(name_end + 1 - line), line);
  return true;
}

/* Processes other than this one that still run. */
static int show_left_over(void) {
  DIR *folder = opendir("/proc");
  if (folder == NULL) return 0;
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (isdigit((unsigned char)entry->d_name[0]) && strcmp(entry->d_name, "1") != 0)
      count += show_process(entry->d_name);
  }
  closedir(folder);
  return count;
}

/* Whether no child of this process is left, those inherited from others included. */
static bool all_ended(void) {
  for (;;) {
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    if (pid < 0) return errno == ECHILD;
    if (pid == 0) return false;
  }
}

static bool nothing_is_left(void) {
  for (int i = 0; i < LEFT_OVER_SECONDS * 100 && !all_ended(); i++)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  if (all_ended()) return true;
  return show_left_over() == 0;
}

static double seconds_of(struct timeval time) {
  return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

/* Of processes that were waited for. */
static void print_processor_time(void) {
  struct rusage used;
  if (getrusage(RUSAGE_CHILDREN, &used) != 0) return;
  printf("# processor: %.1f s\n", seconds_of(used.ru_utime) + seconds_of(used.ru_stime));
}

static int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static pid_t command;

static void pass_on(int signal) {
  kill(command, signal);
}

/* Process 1: when it exits, the kernel kills all others of the namespace. */
static int run_as_init(char **arguments, pid_t unique) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  mount_own();
  set_first_pid(unique);
  raise_loopback();
  add_interface();
  command = fork();
  if (command < 0) refuse("fork");
  if (command == 0) {
    execvp(arguments[0], arguments);
    refuse(arguments[0]);
  }
  signal(SIGTERM, pass_on);
  signal(SIGINT, pass_on);
  int status;
  for (pid_t ended = 0; ended != command;) {
    ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) refuse("wait");
  }
  bool clean = nothing_is_left();
  print_processor_time();
  fflush(NULL);
  int code = exit_code_of(status);
  return code == 0 && !clean ? 1 : code;
}

/* ---- the namespaces -------------------------------------------------------------------------*/

static void enter_namespaces(void) {
  if (unshare(CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS) != 0) refuse("unshare");
}

/* A folder for temporary files, removed at the end. */
static char *make_folder(char path[], size_t bytes) {
  const char *parent = getenv("TMPDIR");
  snprintf(path, bytes, "%s/test.XXXXXX", parent != NULL ? parent : "/tmp");
  if (mkdtemp(path) == NULL) refuse(path);
  setenv("TMPDIR", path, 1);
  return path;
}

static void remove_folder(const char *path) {
  try_command((const char *[]){"rm", "-rf", "--one-file-system", path, NULL});
}

int main(int argc, char **argv) {
  char folder[4096];
  enter_namespaces();
  if (argc > 1) make_folder(folder, sizeof folder);
  pid_t unique = getpid();
  command = fork();
  if (command < 0) refuse("fork");
  if (command == 0) {
    if (argc > 1) return run_as_init(argv + 1, unique);
    mount_own();
    return 0;
  }
  signal(SIGTERM, pass_on);
  signal(SIGINT, pass_on);
  int status;
  while (waitpid(command, &status, 0) != command) {
    if (errno != EINTR) refuse("wait");
  }
  if (argc > 1) remove_folder(folder);
  return exit_code_of(status);
}
