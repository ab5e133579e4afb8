/* agree.c -- comparing the ranks' results and facts. */
#include "comm/agree.h"

#include "base/hash.h"
#include "comm/comm_int.h"

#include <stdio.h>
#include <string.h>

/* The failure is known to all: rank 0 says it. */
static Err agree_fail(Comm *comm, Err err, const char *sentence)
{
    comm->agreed = true;
    return fail(err, "%s", comm->rank ? "" : sentence);
}

/* All say the same, or nobody else failed: no rank is to blame. */
static bool agree_alike(const RankReport *all, int n, int first)
{
    for (int i = 0; i < n; i++)
        if (all[i].code != all[first].code || all[i].sentence != all[first].sentence)
            return false;
    return true;
}

static Err agree_tell(Comm *comm, const RankReport *all, int first, int failed)
{
    char text[WORD_TEXT] = "", sentence[WORD_TEXT + COMM_HOST + 64], more[48] = "";
    if (comm->rank == first)
        snprintf(text, sizeof text, "%s", err_text());
    TRY(comm_share(comm, first, text, sizeof text));
    if (failed > 1)
        snprintf(more, sizeof more, " (%d other ranks failed too)", failed - 1);
    if (agree_alike(all, comm->ranks, first))
        snprintf(sentence, sizeof sentence, "%s", text);
    else
        snprintf(sentence, sizeof sentence, "rank %d on %s: %s%s", first, comm_host(comm, first),
                 text, more);
    return agree_fail(comm, (Err)all[first].code, sentence);
}

Err comm_agree(Comm *comm, Err err)
{
    int first = comm->ranks, failed = 0;
    if (comm->ranks == 1)
        return err;
    RankReport *all = comm->reports;
    RankReport  mine = { (int32_t)err, err ? hash_text(HASH_EMPTY, err_text()) : 0 };
    Err         answer = comm_all(comm, &mine, sizeof mine, all);
    for (int i = comm->ranks; i-- > 0 && !answer;)
        if (all[i].code) {
            first = i;
            failed++;
        }
    if (failed)
        answer = agree_tell(comm, all, first, failed);
    return answer;
}

typedef struct RankFact { /* of one rank */
    uint64_t hash;
    char     value[FACT_SHOWN];
} RankFact;

/* The value that most ranks have; among equals that of the lowest rank. */
static int fact_usual(const RankFact *all, int ranks, int stride)
{
    int best = 0, best_count = 0;
    for (int i = 0; i < ranks && best_count <= ranks / 2; i++) {
        int count = 0;
        for (int j = 0; j < ranks; j++)
            count += all[i * stride].hash == all[j * stride].hash;
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return best;
}

static Err fact_check(Comm *comm, const CommFact *fact, const RankFact *all, int stride)
{
    char sentence[WORD_TEXT];
    int  usual = fact_usual(all, comm->ranks, stride), other = 0;
    while (other < comm->ranks && all[other * stride].hash == all[usual * stride].hash)
        other++;
    if (other == comm->ranks)
        return OK;
    snprintf(sentence, sizeof sentence,
             "the ranks of a run must have the same %s: rank %d on %s has %s, rank %d on %s has "
             "%s%s%s",
             fact->name, other, comm_host(comm, other), all[other * stride].value, usual,
             comm_host(comm, usual), all[usual * stride].value, fact->remedy ? "; " : "",
             fact->remedy ? fact->remedy : "");
    return agree_fail(comm, E_USAGE, sentence);
}

Err comm_same(Comm *comm, const CommFact *facts, int n)
{
    if (comm->ranks == 1 || !n)
        return OK;
    Pool     *pool = pool_new(comm->pool, "facts");
    RankFact *mine = NEWN(pool, RankFact, n), *all = NEWN(pool, RankFact, n * comm->ranks);
    for (int i = 0; i < n; i++) {
        mine[i].hash = hash_text(HASH_EMPTY, facts[i].value);
        snprintf(mine[i].value, sizeof mine[i].value, "%s", facts[i].value);
    }
    Err err = comm_all(comm, mine, n * (int64_t)sizeof *mine, all);
    for (int i = 0; i < n && !err; i++)
        err = fact_check(comm, &facts[i], all + i, n);
    pool_free(pool);
    return err;
}
