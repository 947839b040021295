/*
 * Element types: names of coll.h, format characters of the buffer protocol (PEP 3118, as of the
 * module struct) and type codes of DLPack. Booleans are bytes, complex numbers pairs of floats.
 */
#include <string.h>

#include "arrays.h"

typedef struct row {
  const char *name; /* as NumPy and ml_dtypes name it */
  char code;        /* of a format: i and u stand for all signed and unsigned ones; 0: none */
  int bytes;        /* of an element of the array */
  element_t element;
  int dlpack_code;
} row_t;

/* DLPack's codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 10 and 12 float8. */
static const row_t ROWS[] = {
    {"float32", 'f', 4, {COLL_FLOAT32, ELEMENT_NUMBER}, 2},
    {"float64", 'd', 8, {COLL_FLOAT64, ELEMENT_NUMBER}, 2},
    {"float16", 'e', 2, {COLL_FLOAT16, ELEMENT_NUMBER}, 2},
    {"int64", 'i', 8, {COLL_INT64, ELEMENT_NUMBER}, 0},
    {"int32", 'i', 4, {COLL_INT32, ELEMENT_NUMBER}, 0},
    {"int16", 'i', 2, {COLL_INT16, ELEMENT_NUMBER}, 0},
    {"int8", 'i', 1, {COLL_INT8, ELEMENT_NUMBER}, 0},
    {"uint64", 'u', 8, {COLL_UINT64, ELEMENT_NUMBER}, 1},
    {"uint32", 'u', 4, {COLL_UINT32, ELEMENT_NUMBER}, 1},
    {"uint16", 'u', 2, {COLL_UINT16, ELEMENT_NUMBER}, 1},
    {"uint8", 'u', 1, {COLL_UINT8, ELEMENT_NUMBER}, 1},
    {"bool", '?', 1, {COLL_UINT8, ELEMENT_BOOL}, 6},
    {"bfloat16", 0, 2, {COLL_BFLOAT16, ELEMENT_NUMBER}, 4},
    {"float8_e4m3fn", 0, 1, {COLL_FLOAT8_E4M3, ELEMENT_NUMBER}, 10},
    {"float8_e4m3", 0, 1, {COLL_FLOAT8_E4M3, ELEMENT_NUMBER}, 10},
    {"float8_e5m2", 0, 1, {COLL_FLOAT8_E5M2, ELEMENT_NUMBER}, 12},
    {"complex64", 'F', 8, {COLL_FLOAT32, ELEMENT_COMPLEX}, 5},
    {"complex128", 'D', 16, {COLL_FLOAT64, ELEMENT_COMPLEX}, 5},
};
#define ROW_COUNT (sizeof ROWS / sizeof ROWS[0])

/* The code of ROWS for a format of one native element, or 0. */
static char code_of(const char *format) {
  if (*format == '@' || *format == '=' || *format == '<') format++;
  if (format[0] == 'Z' && format[1] != '\0' && format[2] == '\0') {
    return format[1] == 'f' ? 'F' : format[1] == 'd' ? 'D' : 0;
  }
  if (format[0] == '\0' || format[1] != '\0') return 0;
  if (strchr("bhilqn", *format) != NULL) return 'i';
  if (strchr("BHILQNc", *format) != NULL) return 'u';
  return strchr("fde?", *format) != NULL ? *format : 0;
}

bool element_of_format(const char *format, Py_ssize_t item_bytes, element_t *element) {
  char code = format == NULL ? 'u' : code_of(format);
  for (size_t i = 0; code != 0 && i < ROW_COUNT; i++) {
    if (ROWS[i].code == code && ROWS[i].bytes == item_bytes) {
      *element = ROWS[i].element;
      return true;
    }
  }
  return false;
}

bool element_of_dlpack(int code, int bits, element_t *element) {
  for (size_t i = 0; i < ROW_COUNT; i++) {
    if (ROWS[i].dlpack_code == code && ROWS[i].bytes * 8 == bits) {
      *element = ROWS[i].element;
      return true;
    }
  }
  return false;
}

bool element_of_name(const char *name, element_t *element) {
  for (size_t i = 0; i < ROW_COUNT; i++) {
    if (strcmp(ROWS[i].name, name) == 0) {
      *element = ROWS[i].element;
      return true;
    }
  }
  return false;
}

size_t element_bytes(const element_t *element) {
  return coll_dtype_bytes(element->dtype) * (element->kind == ELEMENT_COMPLEX ? 2 : 1);
}
