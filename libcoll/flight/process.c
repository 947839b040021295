/*
 * The state is the character behind the name in /proc/PID/task/TID/stat. The name is in parentheses
 * and may contain parentheses, so the last closing one ends it.
 */
#include "flight/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAT_BYTES 512 /* the fields read here lie within this many bytes */

/* Fields of /proc/PID/stat, counted from the one behind the name. */
enum { FIELD_GROUP = 2, FIELD_FLAGS = 6, FIELD_START = 19 };

#define FLAG_EXITING 0x4u /* PF_EXITING: set before a thread closes its descriptors */

uint64_t flight_pid_space(void) {
  struct stat space;
  return stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
}

/* Reads the text behind the name: "S 1 2 ...". False if there is no such process or thread. */
static bool read_stat(const char *path, char text[STAT_BYTES]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, text, STAT_BYTES - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  const char *name_end = strrchr(text, ')');
  if (name_end == NULL || name_end[1] != ' ') return false;
  memmove(text, name_end + 2, strlen(name_end + 2) + 1);
  return true;
}

/* The number of a field; the state has the index 0. */
static uint64_t field_of(const char *text, int index) {
  const char *at = text;
  for (int i = 0; i < index && at != NULL; i++) {
    at = strchr(at, ' ');
    if (at != NULL) at++;
  }
  return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static flight_process_t state_of(char descriptor) {
  switch (descriptor) {
    case 'R': return FLIGHT_PROCESS_RUNNING;
    case 'T':
    case 't': return FLIGHT_PROCESS_STOPPED;
    case 'Z':
    case 'X':
    case 'x': return FLIGHT_PROCESS_EXITED;
    default: return FLIGHT_PROCESS_SLEEPING;
  }
}

/* Whether the state of another thread overrides the state found so far. */
static bool outweighs(flight_process_t state, flight_process_t found) {
  static const int weight[] = {[FLIGHT_PROCESS_UNKNOWN] = 0,
                               [FLIGHT_PROCESS_EXITED] = 1,
                               [FLIGHT_PROCESS_STOPPED] = 2,
                               [FLIGHT_PROCESS_SLEEPING] = 3,
                               [FLIGHT_PROCESS_RUNNING] = 4};
  return weight[state] > weight[found];
}

/* exiting_have_exited: threads that exit count as those that have. */
static flight_process_t state_of_threads(DIR *threads, const char *folder,
                                         bool exiting_have_exited) {
  flight_process_t found = FLIGHT_PROCESS_EXITED;
  struct dirent *entry;
  while (found != FLIGHT_PROCESS_RUNNING && (entry = readdir(threads)) != NULL) {
    char path[320], text[STAT_BYTES];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s/stat", folder, entry->d_name);
    if (!read_stat(path, text)) continue;
    if (exiting_have_exited && (field_of(text, FIELD_FLAGS) & FLAG_EXITING) != 0) continue;
    flight_process_t state = state_of(text[0]);
    if (outweighs(state, found)) found = state;
  }
  return found;
}

static flight_process_t find_state(int32_t pid, uint64_t pid_space, bool exiting_have_exited) {
  char folder[32];
  if (pid <= 0 || pid_space == 0 || pid_space != flight_pid_space()) return FLIGHT_PROCESS_UNKNOWN;
  snprintf(folder, sizeof folder, "/proc/%d/task", (int)pid);
  DIR *threads = opendir(folder);
  if (threads == NULL) return errno == ENOENT ? FLIGHT_PROCESS_EXITED : FLIGHT_PROCESS_UNKNOWN;
  flight_process_t found = state_of_threads(threads, folder, exiting_have_exited);
  closedir(threads);
  return found;
}

flight_process_t flight_process_of(int32_t pid, uint64_t pid_space) {
  return find_state(pid, pid_space, false);
}

bool flight_process_ends(int32_t pid, uint64_t pid_space) {
  return find_state(pid, pid_space, true) == FLIGHT_PROCESS_EXITED;
}

const char *flight_process_word(flight_process_t process) {
  switch (process) {
    case FLIGHT_PROCESS_RUNNING: return "running";
    case FLIGHT_PROCESS_SLEEPING: return "sleeping";
    case FLIGHT_PROCESS_STOPPED: return "stopped";
    case FLIGHT_PROCESS_EXITED: return "exited";
    default: return "unknown";
  }
}

/* 0: there is no such process. */
static uint64_t read_field(int32_t pid, int index) {
  char path[32], text[STAT_BYTES];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  return read_stat(path, text) ? field_of(text, index) : 0;
}

int32_t flight_process_group(int32_t pid) {
  return (int32_t)read_field(pid, FIELD_GROUP);
}

uint64_t flight_process_start(int32_t pid) {
  return read_field(pid, FIELD_START);
}
