/* kinds.h -- the functions that open each kind of data; kinds.c has the table. */
#ifndef DATA_KINDS_H
#define DATA_KINDS_H

#include "data/source.h"

Err shapes_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err images_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err clips_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err moving_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err pairs_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err drawn_pairs_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err sets_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err coloured_sets_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err audio_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err tones_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err captioned_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err captioned_shapes_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err arrays_open(Pool *pool, const DataSpec *spec, DataSource **source);
Err random_inputs_open(Pool *pool, const DataSpec *spec, DataSource **source);

#endif
