/* ranks.c -- comparing what ranks run, their signals and their parameters. */
#include "train/ranks.h"

#include "base/hash.h"
#include "base/json_out.h"
#include "comm/agree.h"
#include "device/isa.h"
#include "exec/session_ranks.h"
#include "train/rank_messages.h"

#include <stdio.h>
#include <string.h>

/* ---- before step 1 ---- */

/* Every key but where the data lie, which may differ from machine to machine; what they hold is a
 * fact of its own. */
static uint64_t ranks_recipe_hash(Pool *pool, const Recipe *recipe)
{
    Recipe *plain = recipe_copy(pool, recipe);
    Text    text = { pool };
    JsonOut o;
    plain->data.path = plain->data.holdout_path = NULL;
    json_out_text(&o, &text, JSON_COMPACT);
    json_out_object(&o, NULL);
    recipe_json(pool, plain, &o);
    json_out_end(&o);
    return hash_bytes(HASH_EMPTY, text.at, text.n);
}

static uint64_t ranks_program_hash(uint64_t hash, const Program *program)
{
    const PlanBuffers *buffers = &program->buffers;
    hash = hash_text(hash_int(hash, program->repeat), program->name);
    for (int32_t i = 0; i < program->plan->n_steps; i++)
        hash = hash_int(hash_int(hash, program->plan->steps[i].kind), program->plan->steps[i].id);
    for (int32_t i = 0; i < buffers->n_buffers; i++)
        hash = hash_int(hash_int(hash, buffers->buffers[i].size), buffers->buffers[i].offset);
    return hash;
}

/* Steps and places; not the times, which each machine predicts for itself. */
static uint64_t ranks_plan_hash(const FitResult *fit)
{
    const Engine *engine = fit->engine;
    uint64_t      hash = hash_int(HASH_EMPTY, engine->arena_bytes);
    hash = hash_int(hash_int(hash, fit->recipe->batch), fit->recipe->accumulate);
    for (int32_t i = 0; i < engine->graph->n_values; i++)
        hash = hash_int(hash, engine->offset[i]);
    for (int i = 0; i < engine->n_programs; i++)
        hash = ranks_program_hash(hash, &engine->programs[i]);
    return hash;
}

static Err ranks_data_text(Pool *pool, Feeds *feeds, const char **text)
{
    uint64_t digest;
    TRY(feeds_digest(feeds, &digest));
    *text = pool_print(pool, "%lld samples with digest %016llx",
                       (long long)(feeds->source ? feeds->source->n_samples : 0),
                       (unsigned long long)digest);
    return OK;
}

enum { RANKS_FACTS = 10 };

static Err ranks_facts(Pool *pool, const RankFacts *f, CommFact facts[RANKS_FACTS], int *n)
{
    const Device *device = f->device;
    const char   *install = "install the same build on every machine";
    CommFact      all[RANKS_FACTS] = {
             { "version of plimsoll", PLIMSOLL_VERSION, install },
             { "kind of device", device->kind == DEVICE_CUDA ? "a GPU" : "the CPU",
               "give the same --device, and a GPU to every rank" },
             /* a built-in library's name has it too: it is named for what differs */
             { "instruction set", isa_name(), "set PLIMSOLL_ISA to the lowest of them on all" },
             { "library", device->library, "give --backend builtin, or install the same library" },
             { "number of threads", pool_print(pool, "%d", device->threads), "give --threads N" },
             { "recipe",
               pool_print(pool, "%s with digest %016llx", f->recipe->name,
                          (unsigned long long)ranks_recipe_hash(pool, f->recipe)),
               "give the same recipe and options to all" },
    };
    *n = 6;
    if (f->fit)
        all[(*n)++] = (CommFact){ "plan",
                                  pool_print(pool, "one with digest %016llx",
                                             (unsigned long long)ranks_plan_hash(f->fit)),
                                  "make one with plimsoll fit -o plan.json, and give it to all "
                                  "with --plan" };
    if (f->feeds) {
        const char *data;
        TRY(ranks_data_text(pool, f->feeds, &data));
        all[(*n)++] = (CommFact){ "data", data, "copy them again, or use a shared file system" };
    }
    memcpy(facts, all, sizeof all);
    return OK;
}

Err ranks_agree(Pool *pool, Comm *comm, const RankFacts *f, Err err)
{
    CommFact facts[RANKS_FACTS];
    int      n = 0;
    if (comm_ranks(comm) == 1)
        return err;
    Pool *work = pool_new(pool, "facts");
    err = err ? err : ranks_facts(work, f, facts, &n);
    err = comm_agree(comm, err);
    err = err ? err : comm_same(comm, facts, n);
    err = err ? err : rank_messages_tell(work, comm);
    pool_free(work);
    return err;
}

Err ranks_agree_step(Comm *comm, int64_t step)
{
    char text[32];
    snprintf(text, sizeof text, "that of step %lld", (long long)step);
    return comm_same(comm,
                     &(CommFact){ "checkpoint", text,
                                  "name one with --checkpoint, and use a shared "
                                  "file system" },
                     1);
}

typedef struct NotFiniteTensor {
    int32_t place;
    char    name[156]; /* "": all of this rank's are finite */
} NotFiniteTensor;

Err ranks_first_found(Pool *pool, Comm *comm, int32_t place, const char **found)
{
    int             ranks = comm_ranks(comm), first = -1;
    NotFiniteTensor mine = { .place = place }, *all = NEWN(pool, NotFiniteTensor, ranks);
    if (ranks == 1)
        return OK;
    snprintf(mine.name, sizeof mine.name, "%s", *found ? *found : "");
    TRY(comm_all(comm, &mine, sizeof mine, all));
    for (int r = 0; r < ranks; r++)
        if (all[r].name[0] && (first < 0 || all[r].place < all[first].place))
            first = r;
    *found = first < 0 ? NULL : pool_print(pool, "%s on rank %d", all[first].name, first);
    return OK;
}

/* ---- in each step ---- */

Err ranks_signals(Comm *comm, bool *stop, bool *save)
{
    unsigned any, mine = (*stop ? 1u : 0) | (*save ? 2u : 0);
    TRY(comm_any(comm, mine, &any));
    *stop = any & 1;
    *save = any & 2;
    return OK;
}

struct RankCheck {
    Comm    *comm;
    Session *session;
    int64_t  every;
    void    *buffer; /* for the largest parameter; NULL: their bytes are in host memory */
};

Err ranks_check_new(Pool *pool, Comm *comm, Session *session, int64_t every, RankCheck **check)
{
    const Graph *graph = session_engine(session)->graph;
    int64_t      largest = 0;
    for (int32_t i = 0; i < graph->n_params; i++) {
        int64_t bytes = value_at(graph, graph->params[i].value)->bytes;
        largest = bytes > largest ? bytes : largest;
    }
    *check = NEW(pool, RankCheck);
    **check = (RankCheck){ .comm = comm, .session = session, .every = every };
    if (session_engine(session)->device->api && comm_ranks(comm) > 1 && every)
        (*check)->buffer = pool_alloc(pool, (size_t)largest, 1);
    return OK;
}

static Err ranks_digest(RankCheck *c, uint64_t *digest)
{
    const Graph *graph = session_engine(c->session)->graph;
    *digest = HASH_EMPTY;
    for (int32_t i = 0; i < graph->n_params; i++) {
        int32_t     value = graph->params[i].value;
        const void *bytes = c->buffer;
        if (!graph->params[i].trained)
            continue;
        if (param_shards(graph, &graph->params[i], value))
            TRY(session_collect(c->session, &graph->params[i], value, -1, &bytes));
        else if (c->buffer)
            TRY(session_read(c->session, value, c->buffer));
        else
            bytes = session_bytes(c->session, value);
        *digest = hash_words(*digest, bytes, (size_t)value_at(graph, value)->bytes);
    }
    return OK;
}

/* *odd: the first rank whose parameters differ from most; -1: none, or it is not to be looked at. */
static Err ranks_compare(RankCheck *c, int64_t step, int *odd)
{
    uint64_t digest;
    *odd = -1;
    if (comm_ranks(c->comm) == 1 || !c->every || step % c->every)
        return OK;
    TRY(ranks_digest(c, &digest));
    return comm_odd(c->comm, digest, odd);
}

Err ranks_check_start(RankCheck *c)
{
    int odd;
    TRY(ranks_compare(c, 0, &odd));
    return odd < 0 ? OK
                   : comm_refuse(c->comm, E_USAGE,
                                 "rank %d on %s starts with other parameters than the others: its "
                                 "--init file or its copy of the checkpoint is another one. Copy "
                                 "it again, or use a shared file system",
                                 odd, comm_host(c->comm, odd));
}

Err ranks_check(RankCheck *c, int64_t step)
{
    int odd;
    TRY(ranks_compare(c, step, &odd));
    return odd < 0 ? OK
                   : comm_refuse(c->comm, E_DEVICE,
                                 "after step %lld the parameters of rank %d on %s differ from the "
                                 "others': its processor, its memory or the network to it is "
                                 "faulty. Leave that machine out and continue with --resume",
                                 (long long)step, odd, comm_host(c->comm, odd));
}
