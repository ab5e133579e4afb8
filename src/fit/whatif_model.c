/* whatif_model.c -- what-if rows that change the model: fewer frames, channels, layers. Each is the
 * recipe with other values of its system's keys, built and planned again. fit never does this.
 */
#include "fit/whatif_int.h"

#include "base/text.h"

#include <string.h>

typedef enum Move { MOVE_HALF, MOVE_HALF_UP, MOVE_TWICE, MOVE_THREE_QUARTERS,
                    MOVE_TWO_THIRDS } Move;

static const struct Change {
    const char *system, *name, *keys;    /* several keys move together, ' ' between */
    Move        move;
} model_changes[] = {
    { "stdiff",   "fewer predicted frames",     "predicted",            MOVE_HALF_UP },
    { "stdiff",   "fewer observed frames",      "observed",             MOVE_HALF_UP },
    { "stdiff",   "half the resolution",        "image",                MOVE_HALF },
    { "stdiff",   "half the channels",          "channels",             MOVE_HALF },
    { "stdiff",   "half the head width",        "head_width",           MOVE_HALF },
    { "stdiff",   "fewer layers",               "layers",               MOVE_HALF },
    { "stablesr", "half the resolution",        "image latent",         MOVE_HALF },
    { "stablesr", "half the U-Net's channels",  "channels",             MOVE_HALF },
    { "stablesr", "half the edge channels",     "edge_width",           MOVE_HALF },
    { "stablesr", "fewer edge layers",          "edge_convs",           MOVE_HALF_UP },
    { "stablesr", "half the head width",        "head_width",           MOVE_HALF },
    { "stablesr", "fewer layers",               "layers",               MOVE_HALF },
    { "lag",      "fewer images a set",         "set_size",             MOVE_HALF_UP },
    { "lag",      "half the resolution",        "image",                MOVE_HALF },
    { "lag",      "patches of twice the side",  "patch",                MOVE_TWICE },
    { "lag",      "half the channels",          "hidden",               MOVE_HALF },
    { "lag",      "half the encoder's head width", "encoder_head_width", MOVE_HALF },
    { "lag",      "fewer DiT layers",           "depth",                MOVE_TWO_THIRDS },
    { "lag",      "fewer encoder layers",       "encoder_depth",        MOVE_TWO_THIRDS },
    { "lag",      "half the encoder's heads",   "encoder_heads",        MOVE_HALF },
    { "sashimi",  "half the sequence length",   "length",               MOVE_HALF },
    { "sashimi",  "fewer layers",               "layers",               MOVE_THREE_QUARTERS },
    { "sashimi",  "fewer mixtures",             "components",           MOVE_TWO_THIRDS },
    { "sashimi",  "half the channels",          "width",                MOVE_HALF },
    { "sashimi",  "half the state",             "state",                MOVE_HALF },
    { "dit3d",    "half the frames",            "frames",               MOVE_HALF },
    { "dit3d",    "half the resolution",        "image",                MOVE_HALF },
    { "dit3d",    "patches of twice the side",  "patch",                MOVE_TWICE },
    { "dit3d",    "half the width",             "width",                MOVE_HALF },
    { "dit3d",    "twice the heads, half as wide", "heads",             MOVE_TWICE },
    { "dit3d",    "fewer layers",               "depth",                MOVE_TWO_THIRDS },
    { "unet",     "half the resolution",        "height width",         MOVE_HALF },
    { "unet",     "half the channels",          "widths",               MOVE_HALF },
    { "unet",     "twice the heads, half as wide", "heads",             MOVE_TWICE },
};

static int64_t moved(Move move, int64_t v)
{
    switch (move) {
    case MOVE_HALF:           return v / 2;
    case MOVE_HALF_UP:        return (v + 1) / 2;
    case MOVE_TWICE:          return 2 * v;
    case MOVE_THREE_QUARTERS: return v * 3 / 4;
    case MOVE_TWO_THIRDS:     return v * 2 / 3;
    }
    return v;
}

/* "model.key=value" with the value moved; NULL where nothing would change. */
static const char *moved_setting(Pool *pool, const Recipe *recipe, const char *key, size_t n,
                                 Move move)
{
    const Field *f = recipe->model->fields;
    while (f->key && (strlen(f->key) != n || memcmp(f->key, key, n)))
        f++;
    REQUIRE(f->key && (f->kind == FIELD_INT || f->kind == FIELD_INTS));
    const void *at = (const char *)recipe->config + f->offset;
    if (f->kind == FIELD_INT) {
        int64_t was = *(const int64_t *)at, now = moved(move, was);
        return now == was || now < 1 ? NULL : pool_print(pool, "model.%s=%lld", f->key,
                                                         (long long)now);
    }
    Text text = { .pool = pool };
    for (int i = 0; i < ((const Ints *)at)->n; i++)
        text_add(&text, "%s%lld", i ? "," : "[", (long long)moved(move, ((const Ints *)at)->at[i]));
    return pool_print(pool, "model.%s=%s]", f->key, text.at);
}

static Err run_change(WhatIfRun *run, const struct Change *change)
{
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    Text    how = { .pool = run->pool };
    WhatIf  row = { .name = change->name, .effort = EFFORT_LONG };
    for (const char *key = change->keys; *key; key += strspn(key, " ")) {
        size_t      n = strcspn(key, " ");
        const char *setting = moved_setting(run->pool, r, key, n, change->move);
        if (!setting)
            return OK;
        text_add(&how, "%s--set %s", how.n ? " " : "", setting);
        row.how = how.at;
        if (recipe_set(run->pool, r, setting)) {
            run_refuse(run, row, pool_text(run->pool, err_text()));
            return OK;
        }
        key += n;
    }
    if (r->model->check && r->model->check(r->config)) {
        run_refuse(run, row, pool_text(run->pool, err_text()));
        return OK;
    }
    return run_row(run, row, r, SEARCH_NONE);
}

Err run_changes(WhatIfRun *run)
{
    for (size_t i = 0; i < sizeof model_changes / sizeof *model_changes; i++)
        if (!strcmp(model_changes[i].system, run->e->recipe->model->name))
            TRY(run_change(run, &model_changes[i]));
    Recipe *r = recipe_copy(run->pool, run->e->recipe);
    r->batch /= 2;
    if (r->batch < 1)
        return OK;
    return run_row(run, (WhatIf){ .name = "half the batch, and half the effective batch",
                                  .effort = EFFORT_LONG,
                                  .how = pool_print(run->pool, "--batch %lld",
                                                    (long long)r->batch) }, r, SEARCH_NONE);
}
