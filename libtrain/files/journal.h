/*
 * A file of JSON lines: one record a line, each written out as a whole before the next, so that a
 * run that is stopped at any moment leaves every record up to then.
 */
#ifndef LIBTRAIN_FILES_JOURNAL_H
#define LIBTRAIN_FILES_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct train_journal train_journal_t;

/* Opens the file at `path`, which the caller keeps alive: emptied, or to go on behind its last line
 * when `append`. COLL_ERROR_SYSTEM names the path, here and below. */
coll_status_t train_journal_open(const char *path, bool append, train_journal_t **journal);
void train_journal_close(train_journal_t *journal); /* NULL is fine */

/* Adds the record, an object, as a line, and gives it up (json_decref) either way. */
coll_status_t train_journal_write(train_journal_t *journal, json_t *record);

#endif
