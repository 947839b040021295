/* The arrays are one piece of memory; files see them as a flat space. */
#include "libtrain/files/state.h"

#include <stdlib.h>

#include "base/memory.h"
#include "libtrain/files/checkpoint.h"

coll_status_t train_state_create(const train_model_config_t *config, train_state_t *state) {
  train_state_t created = {0};
  void *memory;
  COLL_TRY(train_layout_create(config, &created.layout));
  size_t count = created.layout->parameter_count;
  coll_status_t status =
      base_alloc(TRAIN_ARRAYS * count, sizeof(float), "the parameters and the optimizer", &memory);
  if (status != COLL_OK) {
    train_layout_destroy(created.layout);
    return status;
  }
  created.parameters = memory;
  created.first_moments = created.parameters + count;
  created.second_moments = created.first_moments + count;
  *state = created;
  return COLL_OK;
}

void train_state_free(train_state_t *state) {
  train_record_free(&state->record);
  free(state->parameters);
  train_layout_destroy(state->layout);
  *state = (train_state_t){0};
}

coll_status_t train_checkpoint_save(const char *path, const train_state_t *state) {
  train_flat_arrays_t arrays = {{state->parameters, state->first_moments, state->second_moments}};
  const train_flat_t flat = train_flat_of(&arrays);
  train_record_t record = state->record;
  record.config = state->layout->config;
  record.position.step = state->step;
  record.moments = true;
  return train_checkpoint_write(path, &record, &flat);
}

static coll_status_t read_all(const train_file_t *file, train_state_t *state) {
  float *const arrays[TRAIN_ARRAYS] = {state->parameters, state->first_moments,
                                       state->second_moments};
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    COLL_TRY(file->flat.read(file->flat.context, (train_array_t)array, 0,
                             state->layout->parameter_count, arrays[array]));
  }
  return COLL_OK;
}

coll_status_t train_checkpoint_load(const char *path, train_state_t *state) {
  train_file_t *file;
  train_state_t loaded;
  COLL_TRY(train_file_open(path, &file));
  coll_status_t status = train_state_create(&file->record.config, &loaded);
  if (status != COLL_OK) goto done;
  status = read_all(file, &loaded);
  if (status != COLL_OK) {
    train_state_free(&loaded);
    goto done;
  }
  loaded.step = file->record.position.step;
  loaded.record = file->record;
  file->record.tokenizer = NULL; /* the state's now */
  *state = loaded;
done:
  train_file_close(file);
  return status;
}
