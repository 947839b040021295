/*
 * Elements of all types, and what reductions must make of them.
 */
#ifndef TESTS_NCCL_PROGRAMS_ELEMENTS_H
#define TESTS_NCCL_PROGRAMS_ELEMENTS_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

/* Where an element of a result is from: element `index` of what that rank sends. */
typedef struct element {
  int rank;
  size_t index;
} element_t;
#define ELEMENT_ALL_RANKS (-1) /* their reduction */
#define ELEMENT_NONE (-2)      /* this rank gets none */

/* The types of the tests, by number. */
int element_types(void);
ncclDataType_t element_type(int number);
size_t element_bytes(ncclDataType_t dtype);

/* Whether the tests reduce elements of the type so; results must be exact. */
bool element_reduces(ncclDataType_t dtype, ncclRedOp_t op);

/* What a rank sends: 1, 2 or 3. */
int element_value(int rank, size_t index);

/* Integers wrap round. */
void element_store(void *buffer, ncclDataType_t dtype, size_t index, double value);
double element_load(const void *buffer, ncclDataType_t dtype, size_t index);

/* Whether an element of a result over so many ranks is right. */
bool element_is(const void *buffer, ncclDataType_t dtype, size_t index, const element_t *from,
                ncclRedOp_t op, int ranks);

#endif
