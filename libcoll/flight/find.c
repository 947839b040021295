/*
 * The content of another process's file is checked before it is used. Files that could shrink while
 * they are mapped are ignored; the library seals its own against that.
 */
#include "flight/find.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define MEMFD_NAME "/memfd:libcoll"
#define PATH_MAX_BYTES 320

/* Whether every recorder is aligned and lies within the file. */
static bool is_valid(const flight_directory_t *directory, uint64_t file_bytes) {
  const uint64_t align = _Alignof(flight_recorder_t), bytes = sizeof(flight_recorder_t);
  uint64_t ranks = directory->ranks, offset = directory->offset, stride = directory->stride;
  if (directory->magic != FLIGHT_MAGIC || ranks == 0 || ranks > FLIGHT_RANKS_MAX) return false;
  if (offset % align != 0 || stride % align != 0 || stride < bytes) return false;
  if (offset > file_bytes || file_bytes - offset < bytes) return false;
  return (file_bytes - offset - bytes) / stride >= ranks - 1;
}

static bool is_known(const flight_found_t *found, uint64_t communicator) {
  for (size_t i = 0; i < found->count; i++) {
    if (found->groups[i].communicator == communicator) return true;
  }
  return false;
}

static coll_status_t add_group(flight_found_t *found, const flight_group_t *group) {
  void *groups = found->groups;
  COLL_TRY(
      base_grow(&groups, &found->capacity, found->count + 1, sizeof *group, "communicators found"));
  found->groups = groups;
  found->groups[found->count++] = *group;
  return COLL_OK;
}

/* Maps the recorders of the communicator in the file, if the file contains one. */
static coll_status_t add_file(flight_found_t *found, int fd) {
  struct stat file;
  flight_directory_t directory;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0) return COLL_OK;
  if (pread(fd, &directory, sizeof directory, FLIGHT_DIRECTORY_OFFSET) !=
      (ssize_t)sizeof directory) {
    return COLL_OK;
  }
  if (!is_valid(&directory, (uint64_t)file.st_size) || is_known(found, directory.communicator)) {
    return COLL_OK;
  }
  size_t map_bytes = (size_t)file.st_size;
  void *map = mmap(NULL, map_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return COLL_OK;
  const flight_group_t group = {.communicator = directory.communicator,
                                .ranks = (int)directory.ranks,
                                .first = (const char *)map + directory.offset,
                                .stride = (size_t)directory.stride,
                                .map = map,
                                .map_bytes = map_bytes};
  coll_status_t status = add_group(found, &group);
  if (status != COLL_OK) munmap(map, map_bytes);
  return status;
}

static bool is_memfd(const char *path) {
  char target[64];
  ssize_t length = readlink(path, target, sizeof target - 1);
  return length >= (ssize_t)strlen(MEMFD_NAME) &&
         memcmp(target, MEMFD_NAME, strlen(MEMFD_NAME)) == 0;
}

coll_status_t flight_found_add_process(flight_found_t *found, int32_t pid) {
  char folder[32], path[PATH_MAX_BYTES];
  coll_status_t status = COLL_OK;
  snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
  DIR *files = opendir(folder);
  if (files == NULL) return COLL_OK;
  struct dirent *entry;
  while (status == COLL_OK && (entry = readdir(files)) != NULL) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (!is_memfd(path)) continue;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    status = add_file(found, fd);
    close(fd);
  }
  closedir(files);
  return status;
}

void flight_found_free(flight_found_t *found) {
  for (size_t i = 0; i < found->count; i++) {
    munmap(found->groups[i].map, found->groups[i].map_bytes);
  }
  free(found->groups);
  *found = (flight_found_t){0};
}
