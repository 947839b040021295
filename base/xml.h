/*
 * XML of NCCL and of programs that have its parser (MSCCL), which accepts more than XML. The
 * functions make XML of it for expat.
 */
#ifndef BASE_XML_H
#define BASE_XML_H

#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

/* Called for each place of which a user should know; `line` counts from 1. */
typedef void (*base_xml_warn_t)(void *context, int line, const char *sentence);

/* Appends all that the stream contains. The caller frees *text, also after a failure.
 * COLL_ERROR_INVALID: it has more than 1 GiB. COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t base_xml_read(FILE *in, const char *name, char **text, size_t *bytes);

/* Copies a text and changes what NCCL's parser accepts and expat refuses: of several attributes of
 * an element with one name the first stays; an attribute without a value is dropped; in values, '<'
 * and '&' that begins none of XML's own entities are escaped, and control characters become '?';
 * comments become empty. Lines stay what they are. Whatever else is wrong stays, for expat to
 * refuse. The caller frees *repaired. COLL_ERROR_MEMORY. */
coll_status_t base_xml_repair(const char *text, size_t bytes, base_xml_warn_t warn, void *context,
                              char **repaired, size_t *repaired_bytes);

#endif
