/* All combinations of waiting, sockets and sizes of system calls, and large buffers. The
 * text of the choice is searched anew for each variant and call: there are few. */
#include "bench/limit_variants.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "bench/limit_links.h"

#define KIB ((size_t)1 << 10)
#define TWO_SOCKETS_MIN (64 * KIB)
#define LARGE_BUFFERS_MIN (256 * KIB)

static const size_t call_sizes[] = {SIZE_MAX, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB};

/* ---- the variants */

static void add(limit_variants_t *variants, bool spins, int sockets, size_t call_bytes) {
  limit_variant_t *variant = &variants->list[variants->count++];
  char size[16] = "";
  if (call_bytes != SIZE_MAX) snprintf(size, sizeof size, "-%uK", (unsigned)(call_bytes / KIB));
  *variant = (limit_variant_t){.spins = spins, .sockets = sockets, .call_bytes = call_bytes};
  snprintf(variant->name, sizeof variant->name, "%s%s%s", spins ? "spin" : "poll",
           sockets > 1 ? "-2" : "", size);
  if (sockets > 1) variant->min_bytes = TWO_SOCKETS_MIN;
  if (call_bytes != SIZE_MAX) variant->min_bytes = (size_t)sockets * call_bytes + 1;
}

static void add_all(limit_variants_t *variants) {
  for (int spins = 0; spins <= 1; spins++) {
    for (int sockets = 1; sockets <= 2; sockets++) {
      for (size_t i = 0; i < sizeof call_sizes / sizeof call_sizes[0]; i++) {
        add(variants, spins != 0, sockets, call_sizes[i]);
      }
    }
  }
  variants->list[variants->count++] = (limit_variant_t){.name = "poll-large",
                                                        .first_socket = LIMIT_LARGE_SOCKET,
                                                        .sockets = 1,
                                                        .call_bytes = SIZE_MAX,
                                                        .min_bytes = LARGE_BUFFERS_MIN};
}

/* ---- the choice */

/* Whether the word is among those of the list, which have spaces between them. */
static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at++) {
    bool begins = at == list || at[-1] == ' ';
    if (begins && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

static bool is_known(const limit_variants_t *variants, const char *name, size_t length) {
  for (int i = 0; i < variants->count; i++) {
    const char *known = variants->list[i].name;
    if (strlen(known) == length && memcmp(known, name, length) == 0) return true;
  }
  return false;
}

/* A misspelt word would be a variant that is not tried. */
static coll_status_t check_choice(const limit_variants_t *variants) {
  for (const char *at = variants->choice; *at != '\0';) {
    size_t length = strcspn(at, " ");
    const char *slash = memrchr(at, '/', length);
    if (slash == NULL || !is_known(variants, slash + 1, (size_t)(at + length - slash - 1))) {
      return base_fail(COLL_ERROR_INVALID,
                       "BENCH_VARIANTS: '%.*s' does not end in a variant, as allreduce/4096/spin",
                       (int)length, at);
    }
    at += length + strspn(at + length, " ");
  }
  return COLL_OK;
}

coll_status_t limit_variants_make(const char *choice, limit_variants_t *variants) {
  *variants = (limit_variants_t){.choice = choice};
  add_all(variants);
  return choice != NULL ? check_choice(variants) : COLL_OK;
}

bool limit_variants_tries(const limit_variants_t *variants, const limit_variant_t *variant,
                          const char *collective, size_t bytes) {
  char word[80];
  if (variants->choice == NULL) return bytes >= variant->min_bytes;
  snprintf(word, sizeof word, "%s/%zu/%s", collective, bytes, variant->name);
  return has_word(variants->choice, word);
}
