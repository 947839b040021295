/* The cost cache: what is saved is loaded again, and damaged files are refused. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/cost_cache.h"

#define PATH_BYTES 1024

static char home[] = "/tmp/libcoll-cost-cache-XXXXXX";

static const char *const names[] = {"one", "two", "three"};
static const int64_t values[] = {1, 0, INT64_MAX};

static void make_home(void) {
  cr_assert_not_null(mkdtemp(home));
  setenv("XDG_CACHE_HOME", home, 1);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *info) {
  (void)status, (void)kind, (void)info;
  return remove(path);
}

static void remove_home(void) {
  cr_assert_eq(nftw(home, remove_one, 4, FTW_DEPTH | FTW_PHYS), 0);
}

/* The only file in the cache folder. */
static FILE *open_file(const char *mode) {
  char folder[256], path[PATH_BYTES] = "";
  snprintf(folder, sizeof folder, "%s/libcoll", home);
  DIR *entries = opendir(folder);
  cr_assert_not_null(entries);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    cr_assert_str_empty(path, "the folder contains more than one file");
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
  }
  closedir(entries);
  FILE *file = fopen(path, mode);
  cr_assert_not_null(file);
  return file;
}

static size_t read_file(char *text, size_t bytes) {
  FILE *file = open_file("r");
  size_t length = fread(text, 1, bytes - 1, file);
  text[length] = '\0';
  fclose(file);
  return length;
}

static void write_file(const char *text, size_t length) {
  FILE *file = open_file("w");
  cr_assert_eq(fwrite(text, 1, length, file), length);
  fclose(file);
}

static bool load(int64_t found[3]) {
  return topo_cost_cache_load("test", names, 3, found);
}

Test(cost_cache, loads_what_was_saved) {
  int64_t found[3] = {7, 7, 7};
  make_home();
  cr_assert_not(load(found));
  topo_cost_cache_save("test", names, 3, values);
  cr_assert(load(found));
  cr_assert_arr_eq(found, values, sizeof values);
  remove_home();
}

Test(cost_cache, adds_and_replaces_values) {
  const char *const more[] = {"four", "one"};
  const int64_t new_values[] = {44, 11}, wanted[] = {11, 0, INT64_MAX};
  int64_t found[3], four;
  make_home();
  topo_cost_cache_save("test", names, 3, values);
  topo_cost_cache_save("test", more, 2, new_values);
  cr_assert(load(found));
  cr_assert_arr_eq(found, wanted, sizeof wanted);
  cr_assert(topo_cost_cache_load("test", more, 1, &four));
  cr_assert_eq(four, 44);
  remove_home();
}

Test(cost_cache, keeps_variants_apart) {
  int64_t found[3] = {7, 7, 7};
  make_home();
  topo_cost_cache_save("test", names, 3, values);
  cr_assert_not(topo_cost_cache_load("other", names, 3, found));
  cr_assert_eq(found[0], 7);
  remove_home();
}

Test(cost_cache, loads_all_names_or_none) {
  const char *const wanted[] = {"one", "none"};
  int64_t found[2] = {7, 7};
  make_home();
  topo_cost_cache_save("test", names, 3, values);
  cr_assert_not(topo_cost_cache_load("test", wanted, 2, found));
  cr_assert_eq(found[0], 7);
  remove_home();
}

/* Refused: the file cut off at any length, and with any byte of its first lines changed. */
Test(cost_cache, refuses_a_damaged_file) {
  char whole[4096], text[4096];
  int64_t found[3];
  make_home();
  topo_cost_cache_save("test", names, 3, values);
  size_t length = read_file(whole, sizeof whole);
  for (size_t cut = 0; cut < length; cut++) {
    write_file(whole, cut);
    cr_assert_not(load(found), "accepted the first %zu of %zu bytes", cut, length);
  }
  size_t key_length = (size_t)(strstr(whole, "\none ") - whole);
  for (size_t at = 0; at < key_length; at++) {
    memcpy(text, whole, length);
    text[at] ^= 1;
    write_file(text, length);
    cr_assert_not(load(found), "accepted a change at %zu", at);
  }
  write_file(whole, length);
  cr_assert(load(found));
  remove_home();
}

Test(cost_cache, refuses_a_damaged_line) {
  static const char *const lines[] = {"four\n",
                                      " 4\n",
                                      "four  4\n",
                                      "four -1\n",
                                      "four 4x\n",
                                      "four 4 4\n",
                                      "\n",
                                      "four 99999999999999999999\n",
                                      "a-name-longer-than-any-of-ours-is 4\n"};
  char text[4096];
  int64_t found[3];
  make_home();
  topo_cost_cache_save("test", names, 3, values);
  size_t length = read_file(text, sizeof text);
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    snprintf(text + length, sizeof text - length, "%s", lines[i]);
    write_file(text, strlen(text));
    cr_assert_not(load(found), "accepted '%s'", lines[i]);
    topo_cost_cache_save("test", names, 3, values); /* replaces the file */
    cr_assert(load(found));
  }
  remove_home();
}

Test(cost_cache, fails_silently_without_a_folder) {
  int64_t found[3];
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  topo_cost_cache_save("test", names, 3, values);
  cr_assert_not(load(found));
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  topo_cost_cache_save("test", names, 3, values);
  cr_assert_not(load(found));
}
