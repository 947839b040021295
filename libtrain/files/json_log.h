/*
 * A log in JSON Lines format: one record per line. Each record is written to the file before the
 * next one starts, so a run that is stopped at any time leaves all its records.
 */
#ifndef LIBTRAIN_FILES_JSON_LOG_H
#define LIBTRAIN_FILES_JSON_LOG_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct train_json_log train_json_log_t;

/* Opens the file at `path`, which the caller must keep valid. The file is truncated, or with
 * `append` continued after its last line. COLL_ERROR_SYSTEM names the path, here and below. */
coll_status_t train_json_log_open(const char *path, bool append, train_json_log_t **log);
void train_json_log_close(train_json_log_t *log); /* NULL is allowed */

/* Called for each record that is read. */
typedef void train_json_log_visit_t(void *context, const json_t *record);

/* Calls `visit` for the records of the file in order. Lines that are not records, such as a
 * truncated one, are skipped. A file that does not exist has no records. COLL_ERROR_SYSTEM names
 * the path. */
coll_status_t train_json_log_read(const char *path, train_json_log_visit_t *visit, void *context);

/* Appends the record, a JSON object, as a line. Takes over the caller's reference to it
 * (json_decref), also on failure. */
coll_status_t train_json_log_write(train_json_log_t *log, json_t *record);

#endif
