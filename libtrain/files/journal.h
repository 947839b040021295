/*
 * A file of JSON lines: one record a line, each written out as a whole before the next, so that a
 * run that is stopped at any moment leaves every record up to then, to be read by the next.
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

/* What is done with a record that is read. */
typedef void train_journal_visit_t(void *context, const json_t *record);

/* Visits the records of the file in their order; lines that are none, such as one that was cut
 * short, are passed over, and no file is one without records. COLL_ERROR_SYSTEM names the path. */
coll_status_t train_journal_read(const char *path, train_journal_visit_t *visit, void *context);

/* Adds the record, an object, as a line, and gives it up (json_decref) either way. */
coll_status_t train_journal_write(train_journal_t *journal, json_t *record);

#endif
