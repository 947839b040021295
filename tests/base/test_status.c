/* The last error: one per thread, complete, and safe to quote in the next one. */
#include "base/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_BYTES 64

Test(status, has_no_message_at_first) {
  cr_assert_str_eq(base_last_error(), "");
}

Test(status, stores_the_message_and_returns_the_status) {
  cr_assert_eq(base_fail(COLL_ERROR_TIMEOUT, "rank %d did not join", 3), COLL_ERROR_TIMEOUT);
  cr_assert_str_eq(base_last_error(), "rank 3 did not join");
  base_fail(COLL_ERROR_SYSTEM, "again: %s", base_last_error());
  cr_assert_str_eq(base_last_error(), "again: rank 3 did not join");
}

Test(status, appends_the_text_of_errno) {
  errno = ENOENT;
  cr_assert_eq(base_fail_errno(COLL_ERROR_SYSTEM, "cannot open %s", "x"), COLL_ERROR_SYSTEM);
  cr_assert_str_eq(base_last_error(), "cannot open x: No such file or directory");
}

Test(status, truncates_long_messages) {
  char endless[5000];
  memset(endless, 'y', sizeof endless);
  endless[sizeof endless - 1] = '\0';
  base_fail(COLL_ERROR_INTERNAL, "%s", endless);
  cr_assert(strlen(base_last_error()) > 500 && strlen(base_last_error()) < sizeof endless);
}

static coll_status_t passes_on(coll_status_t status, int *reached) {
  COLL_TRY(status);
  *reached = 1;
  return COLL_OK;
}

Test(status, is_returned_by_coll_try) {
  int reached = 0;
  cr_assert_eq(passes_on(COLL_ERROR_MEMORY, &reached), COLL_ERROR_MEMORY);
  cr_assert_eq(reached, 0);
  cr_assert_eq(passes_on(COLL_OK, &reached), COLL_OK);
  cr_assert_eq(reached, 1);
}

static void *fail_in_thread(void *message) {
  base_fail(COLL_ERROR_INTERNAL, "in the other thread");
  snprintf(message, MESSAGE_BYTES, "%s", base_last_error());
  return NULL;
}

Test(status, is_private_to_the_thread) {
  char message[MESSAGE_BYTES];
  pthread_t thread;
  base_fail(COLL_ERROR_INVALID, "here");
  cr_assert_eq(pthread_create(&thread, NULL, fail_in_thread, message), 0);
  pthread_join(thread, NULL);
  cr_assert_str_eq(message, "in the other thread");
  cr_assert_str_eq(base_last_error(), "here");
}

static pthread_key_t late_key;
static char late_text[MESSAGE_BYTES];

static void fail_late(void *unused) {
  (void)unused;
  base_fail(COLL_ERROR_INTERNAL, "while the thread ends");
  snprintf(late_text, sizeof late_text, "%s", base_last_error());
}

static void *fail_and_end(void *unused) {
  (void)unused;
  base_fail(COLL_ERROR_INTERNAL, "before");
  pthread_setspecific(late_key, late_text);
  return NULL;
}

/* Destructors run in the order of their keys: the text of the last error is freed first. */
Test(status, is_kept_in_destructors_of_the_thread) {
  pthread_t thread;
  base_fail(COLL_ERROR_INTERNAL, "the first one creates the key of the text");
  cr_assert_eq(pthread_key_create(&late_key, fail_late), 0);
  cr_assert_eq(pthread_create(&thread, NULL, fail_and_end, NULL), 0);
  pthread_join(thread, NULL);
  cr_assert_str_eq(late_text, "while the thread ends");
}

Test(status, has_a_text_for_each_value) {
  for (int i = 0; i < COLL_STATUS_COUNT; i++) {
    cr_assert_str_neq(base_status_string((coll_status_t)i), "unknown status", "%d", i);
  }
  cr_assert_eq(COLL_IN_PROGRESS, 9); /* programs contain the numbers */
  cr_assert_str_eq(base_status_string(COLL_STATUS_COUNT), "unknown status");
  cr_assert_str_eq(base_status_string((coll_status_t)-1), "unknown status");
}
