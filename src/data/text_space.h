/* text_space.h -- which encoder made the embeddings of texts: those of another one have nothing in
 * common with them.
 *
 * A folder of embeddings (NAME.text.npy) that `plimsoll encode` wrote says it in text.json, and a run
 * keeps it in run.json, so that `sample --prompt` uses the same encoder (docs/user/FORMATS.md). */
#ifndef DATA_TEXT_SPACE_H
#define DATA_TEXT_SPACE_H

#include "base/json.h"
#include "base/json_out.h"

typedef struct TextSpace {
    const char *encoder; /* base/prompt.h; NULL: there are no texts */
    uint64_t    hash;    /* of the encoder; of TEXT_FROM_FILES that of the embeddings */
    const char *weights, *vocabulary; /* of a text tower: its files; NULL: none */
} TextSpace;

/* Embeddings of TEXT_FROM_FILES are of one space, as far as is known. */
bool text_space_same(const TextSpace *a, const TextSpace *b);

/* The members of a JSON object. */
void text_space_out(JsonOut *o, const TextSpace *space);
Err  text_space_in(Pool *pool, const Json *object, TextSpace *space);

/* FOLDER/text.json. encoder NULL: there is no such file. */
Err text_space_read(Pool *pool, const char *folder, TextSpace *space);
Err text_space_write(const char *folder, const TextSpace *space);

/* A caption, NAME.txt: UTF-8, without the white space at its end; E_FORMAT if it is empty. */
Err caption_read(Pool *pool, const char *path, const char **text);

#endif
