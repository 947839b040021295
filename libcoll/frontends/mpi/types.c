/*
 * Datatypes. Predefined ones are in a hash table that is filled once. A derived one is looked at
 * when it is seen first, and what is found is an attribute of it, which goes when the type goes.
 * A derived type counts as contiguous only if it is a contiguous type or a copy of one that is: a
 * type without holes may still list its elements in another order. All others are packed.
 */
#include "frontends/mpi/types.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "frontends/mpi/layer.h"

#define SLOT_COUNT 256 /* a power of two, over twice the number of predefined types */
#define DEPTH_MAX 16   /* of contiguous types of contiguous types */

typedef struct slot {
  MPI_Datatype handle;
  bool is_used;
  layer_type_t type;
} slot_t;

static slot_t slots[SLOT_COUNT];
static int type_key = MPI_KEYVAL_INVALID;
static pthread_mutex_t attribute_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned slot_of(MPI_Datatype handle) {
  uint64_t key = (uint64_t)(uintptr_t)handle;
  return (unsigned)((key * 0x9e3779b97f4a7c15u) >> 56) & (SLOT_COUNT - 1);
}

static layer_type_t *find_predefined(MPI_Datatype handle) {
  for (unsigned i = slot_of(handle); slots[i].is_used; i = (i + 1) & (SLOT_COUNT - 1)) {
    if (slots[i].handle == handle) return &slots[i].type;
  }
  return NULL;
}

/* ---- predefined types ----------------------------------------------------------------------*/

/* The dtype of numbers of a kind and size; false: there is none. */
static bool dtype_of(unsigned ops, bool is_signed, size_t bytes, coll_dtype_t *dtype) {
  static const coll_dtype_t sign[] = {COLL_INT8, COLL_INT16, COLL_INT32, COLL_INT64};
  static const coll_dtype_t none[] = {COLL_UINT8, COLL_UINT16, COLL_UINT32, COLL_UINT64};
  if (ops & (LAYER_FLOAT | LAYER_COMPLEX)) {
    *dtype = bytes == 4 ? COLL_FLOAT32 : COLL_FLOAT64;
    return bytes == 4 || bytes == 8;
  }
  for (int i = 0; i < 4; i++) {
    if (bytes == (size_t)1 << i) {
      *dtype = is_signed ? sign[i] : none[i];
      return true;
    }
  }
  return false;
}

/* An MPI has no handle for a type that its compiler has not. */
static void add(MPI_Datatype handle, unsigned ops, bool is_signed) {
  MPI_Count bytes = 0;
  unsigned i = slot_of(handle);
  layer_type_t type = {
      .is_predefined = true, .is_contiguous = true, .parts = ops & LAYER_COMPLEX ? 2 : 1};
  if (handle == layer.type_null || find_predefined(handle) != NULL) return;
  if (pmpi.Type_size_x(handle, &bytes) != MPI_SUCCESS || bytes <= 0) return;
  type.size = (size_t)bytes;
  type.extent = (ptrdiff_t)bytes;
  if (dtype_of(ops, is_signed, type.size / (size_t)type.parts, &type.dtype)) type.ops = ops;
  while (slots[i].is_used) i = (i + 1) & (SLOT_COUNT - 1);
  slots[i] = (slot_t){handle, true, type};
}

static void add_c(void) {
  const unsigned integer = LAYER_INTEGER | LAYER_BITS;
  const MPI_Datatype with_sign[] = {MPI_SIGNED_CHAR, MPI_SHORT,  MPI_INT,     MPI_LONG,
                                    MPI_LONG_LONG,   MPI_INT8_T, MPI_INT16_T, MPI_INT32_T,
                                    MPI_INT64_T,     MPI_AINT,   MPI_OFFSET,  MPI_COUNT};
  const MPI_Datatype without[] = {MPI_UNSIGNED_CHAR,      MPI_UNSIGNED_SHORT, MPI_UNSIGNED,
                                  MPI_UNSIGNED_LONG,      MPI_UINT8_T,        MPI_UINT16_T,
                                  MPI_UNSIGNED_LONG_LONG, MPI_UINT32_T,       MPI_UINT64_T};
  for (size_t i = 0; i < sizeof with_sign / sizeof with_sign[0]; i++) {
    add(with_sign[i], integer, true);
  }
  for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) add(without[i], integer, false);
  add(MPI_FLOAT, LAYER_FLOAT, true);
  add(MPI_DOUBLE, LAYER_FLOAT, true);
  add(MPI_C_FLOAT_COMPLEX, LAYER_COMPLEX, true);
  add(MPI_C_DOUBLE_COMPLEX, LAYER_COMPLEX, true);
  add(MPI_BYTE, LAYER_BITS, false);
  add(MPI_CHAR, LAYER_NO_OPS, true);
}

static void add_fortran(void) {
  const unsigned integer = LAYER_INTEGER | LAYER_BITS;
  const MPI_Datatype integers[] = {MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4,
                                   MPI_INTEGER8};
  const MPI_Datatype reals[] = {MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8};
  const MPI_Datatype complexes[] = {MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16};
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) add(integers[i], integer, true);
  for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) add(reals[i], LAYER_FLOAT, true);
  for (size_t i = 0; i < sizeof complexes / sizeof complexes[0]; i++) {
    add(complexes[i], LAYER_COMPLEX, true);
  }
  add(MPI_CHARACTER, LAYER_NO_OPS, true);
  add(MPI_LOGICAL, LAYER_NO_OPS, true);
}

/* ---- other types ---------------------------------------------------------------------------*/

static int free_type(MPI_Datatype handle, int key, void *value, void *extra) {
  (void)handle, (void)key, (void)extra;
  free(value);
  return MPI_SUCCESS;
}

static int no_copy(MPI_Datatype handle, int key, void *extra, void *value, void *copy,
                   int *is_copied) {
  (void)handle, (void)key, (void)extra, (void)value, (void)copy;
  *is_copied = 0;
  return MPI_SUCCESS;
}

/* How a type was made, as MPI_Type_get_envelope says it. */
typedef struct envelope {
  int integers, addresses, types, combiner;
  bool has_large_counts; /* it was made by an MPI_Type_*_c */
} envelope_t;

/* MPICH's MPI_Type_get_envelope ends the program if the type has large counts, so MPI 4's function
 * for both kinds is called where there is one. */
static bool get_envelope(MPI_Datatype handle, envelope_t *envelope) {
  static int (*get_any)(MPI_Datatype, MPI_Count *, MPI_Count *, MPI_Count *, MPI_Count *, int *);
  MPI_Count integers = 0, addresses = 0, large_counts = 0, types = 0;
  *envelope = (envelope_t){.combiner = MPI_UNDEFINED};
  if (get_any == NULL) *(void **)&get_any = pmpi_symbol("PMPI_Type_get_envelope_c");
  if (get_any == NULL) {
    return pmpi.Type_get_envelope(handle, &envelope->integers, &envelope->addresses,
                                  &envelope->types, &envelope->combiner) == MPI_SUCCESS;
  }
  if (get_any(handle, &integers, &addresses, &large_counts, &types, &envelope->combiner) !=
      MPI_SUCCESS) {
    return false;
  }
  envelope->integers = (int)integers;
  envelope->addresses = (int)addresses;
  envelope->types = (int)types;
  envelope->has_large_counts = large_counts > 0;
  return true;
}

/* Follows contiguous types and copies down to a predefined type. */
static bool is_contiguous(MPI_Datatype handle, int depth) {
  int counts[1];
  envelope_t made;
  MPI_Aint unused[1];
  MPI_Datatype inner;
  if (find_predefined(handle) != NULL) return true;
  if (depth == 0 || !get_envelope(handle, &made)) return false;
  if (made.combiner != MPI_COMBINER_CONTIGUOUS && made.combiner != MPI_COMBINER_DUP) return false;
  if (made.integers > 1 || made.addresses > 0 || made.types != 1 || made.has_large_counts) {
    return false;
  }
  if (pmpi.Type_get_contents(handle, made.integers, made.addresses, made.types, counts, unused,
                             &inner) != MPI_SUCCESS) {
    return false;
  }
  /* The handle of a derived inner type is a new one, which has to be freed. */
  if (find_predefined(inner) != NULL) return true;
  bool result = is_contiguous(inner, depth - 1);
  if (get_envelope(inner, &made) && made.combiner != MPI_COMBINER_NAMED) pmpi.Type_free(&inner);
  return result;
}

/* The size is that of MPI_Type_size_x: an int does not hold more than 2 GiB. */
static bool look_at(MPI_Datatype handle, layer_type_t *found) {
  MPI_Count bytes = 0;
  MPI_Aint lower = 0, extent = 0;
  if (pmpi.Type_size_x(handle, &bytes) != MPI_SUCCESS || bytes < 0) return false;
  if (pmpi.Type_get_extent(handle, &lower, &extent) != MPI_SUCCESS) return false;
  *found = (layer_type_t){.size = (size_t)bytes, .extent = (ptrdiff_t)extent};
  found->is_contiguous = is_contiguous(handle, DEPTH_MAX) && extent == bytes;
  return true;
}

/* Without memory, it is looked at again in the next call. */
static void keep(MPI_Datatype handle, const layer_type_t *found) {
  layer_type_t *kept = malloc(sizeof *kept);
  if (kept == NULL) return;
  *kept = *found;
  if (pmpi.Type_set_attr(handle, type_key, kept) != MPI_SUCCESS) free(kept);
}

bool layer_type_find(MPI_Datatype handle, layer_type_t *found) {
  int is_known = 0;
  const layer_type_t *type = find_predefined(handle);
  if (type != NULL) *found = *type;
  if (type != NULL || handle == layer.type_null) return type != NULL;
  pthread_mutex_lock(&attribute_lock);
  pmpi.Type_get_attr(handle, type_key, &type, &is_known);
  if (is_known) *found = *type;
  bool is_found = is_known || look_at(handle, found);
  if (is_found && !is_known) keep(handle, found);
  pthread_mutex_unlock(&attribute_lock);
  return is_found;
}

void layer_types_start(void) {
  pmpi.Type_create_keyval(no_copy, free_type, &type_key, NULL);
  add_c();
  add_fortran();
}

void layer_types_end(void) {
  pmpi.Type_free_keyval(&type_key);
}
