/*
 * Decodes event files with an independent decoder for the needed subset of TFRecord and protocol
 * buffers.
 */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "libtrain/files/events.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(events, .init = setup, .fini = teardown);

/* The test vectors of RFC 3720, appendix B.4, and the common check value. */
Test(events, checksums_match_rfc_3720) {
  uint8_t bytes[32];
  memset(bytes, 0, sizeof bytes);
  cr_assert_eq(train_events_crc(bytes, sizeof bytes), 0x8a9136aau);
  memset(bytes, 0xff, sizeof bytes);
  cr_assert_eq(train_events_crc(bytes, sizeof bytes), 0x62a8ab43u);
  for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
  cr_assert_eq(train_events_crc(bytes, sizeof bytes), 0x46dd794eu);
  cr_assert_eq(train_events_crc("123456789", 9), 0xe3069283u);
}

static uint64_t little_endian(const uint8_t *bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

static void check_sum_at(const uint8_t *bytes, size_t count, const uint8_t *sum) {
  uint64_t crc = train_events_crc(bytes, count), rotated = (crc >> 15 | crc << 17) & 0xffffffff;
  cr_assert_eq(little_endian(sum, 4), (rotated + 0xa282ead8u) & 0xffffffff);
}

/* Reads the field at bytes[*at] and advances *at. Fixed and varint values are returned in *number,
 * embedded bytes in *inside. Returns the field number. */
static int read_field(const uint8_t *bytes, size_t *at, uint64_t *number, const uint8_t **inside) {
  uint64_t values[2] = {0}; /* the key; the value or the length */
  for (int i = 0; i < 2; i++) {
    int wire_type = (int)(values[0] & 7);
    if (i == 1 && (wire_type == 1 || wire_type == 5)) {
      values[1] = little_endian(bytes + *at, wire_type == 1 ? 8 : 4);
      *at += wire_type == 1 ? 8 : 4;
      break;
    }
    for (int shift = 0; shift == 0 || bytes[*at - 1] >= 0x80; shift += 7) {
      values[i] |= (uint64_t)(bytes[(*at)++] & 0x7f) << shift;
    }
  }
  *number = values[1];
  *inside = bytes + *at;
  if ((values[0] & 7) == 2) *at += values[1];
  return (int)(values[0] >> 3);
}

/* Contents of a record; for a scalar the last value of its summary. */
typedef struct event {
  double wall_time;
  uint64_t step;
  char version[32], tag[32];
  float value;
  int values;
} event_t;

static void read_value(const uint8_t *bytes, size_t count, event_t *event) {
  uint64_t number;
  const uint8_t *inside;
  for (size_t at = 0; at < count;) {
    switch (read_field(bytes, &at, &number, &inside)) {
      case 1: snprintf(event->tag, sizeof event->tag, "%.*s", (int)number, inside); break;
      case 2: memcpy(&event->value, &(uint32_t){(uint32_t)number}, sizeof event->value); break;
      default: cr_assert_fail("an unknown field of a value");
    }
  }
  event->values++;
}

static event_t read_event(const uint8_t *bytes, size_t count) {
  event_t event = {0};
  uint64_t number, length;
  const uint8_t *inside, *value;
  for (size_t at = 0; at < count;) {
    switch (read_field(bytes, &at, &number, &inside)) {
      case 1: memcpy(&event.wall_time, &number, sizeof number); break;
      case 2: event.step = number; break;
      case 3: snprintf(event.version, sizeof event.version, "%.*s", (int)number, inside); break;
      case 5:
        for (size_t in = 0; in < number;) {
          cr_assert_eq(read_field(inside, &in, &length, &value), 1);
          read_value(value, length, &event);
        }
        break;
      default: cr_assert_fail("an unknown field of an event");
    }
  }
  return event;
}

/* Reads the record at bytes[*at] and checks its frame. */
static event_t read_record(const uint8_t *bytes, size_t count, size_t *at) {
  const uint8_t *record = bytes + *at;
  cr_assert_leq(*at + 16, count);
  size_t length = little_endian(record, 8);
  *at += 16 + length;
  cr_assert_leq(*at, count);
  check_sum_at(record, 8, record + 8);
  check_sum_at(record + 12, length, record + 12 + length);
  return read_event(record + 12, length);
}

static uint8_t *read_only_file(const char *path, size_t *count) {
  char pattern[256];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*", path);
  cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
  cr_assert_eq(found.gl_pathc, 1);
  uint8_t *bytes = folder_read(found.gl_pathv[0], count);
  globfree(&found);
  return bytes;
}

Test(events, scalars_can_be_read_back) {
  const char *path = folder_path(&folder, "runs/first");
  train_events_t *events;
  cr_assert_eq(train_events_open(path, &events), COLL_OK, "%s", base_last_error());
  const train_scalar_t scalars[] = {{"loss/training", 2.5}, {"speed", 1e6}};
  cr_assert_eq(train_events_write(events, 1, scalars, 2), COLL_OK);
  cr_assert_eq(train_events_write(events, UINT64_C(1) << 40, scalars, 1), COLL_OK);
  size_t count, at = 0;
  uint8_t *bytes = read_only_file(path, &count); /* read before closing: every event is flushed */
  train_events_close(events);
  event_t first = read_record(bytes, count, &at), second = read_record(bytes, count, &at);
  event_t third = read_record(bytes, count, &at);
  cr_assert_eq(at, count);
  cr_assert_str_eq(first.version, "brain.Event:2");
  cr_assert_gt(first.wall_time, 1.6e9);
  cr_assert(second.step == 1 && second.values == 2 && second.value == 1e6f);
  cr_assert_str_eq(second.tag, "speed");
  cr_assert(third.step == UINT64_C(1) << 40 && third.values == 1 && third.value == 2.5f);
  cr_assert_str_eq(third.tag, "loss/training");
  free(bytes);
}

Test(events, rejects_a_folder_that_cannot_be_created) {
  train_events_t *events;
  const char *file = folder_write(&folder, "file", "", 0);
  cr_assert_eq(train_events_open(file, &events), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "cannot create the folder"), "%s", base_last_error());
}
