/* agree.c -- comparing the ranks' results and facts. */
#include "comm/agree.h"

#include "base/hash.h"
#include "comm/comm_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

Err comm_refuse(Comm *comm, Err err, const char *fmt, ...)
{
    char    sentence[WORD_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
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
    char text[WORD_TEXT] = "", more[48] = "";
    Err  err = (Err)all[first].code;
    if (comm->rank == first)
        snprintf(text, sizeof text, "%s", err_text());
    TRY(comm_share(comm, first, text, sizeof text));
    if (agree_alike(all, comm->ranks, first))
        return comm_refuse(comm, err, "%s", text);
    if (failed > 1)
        snprintf(more, sizeof more, " (%d other ranks failed too)", failed - 1);
    return comm_refuse(comm, err, "rank %d on %s: %s%s", first, comm_host(comm, first), text, more);
}

Err comm_agree(Comm *comm, Err err)
{
    int first = comm->ranks, failed = 0;
    if (comm->ranks == 1 || comm->agreed) /* all know of a failure already */
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

Err comm_follow(Comm *comm, int from, Err err)
{
    RankReport report = { (int32_t)err, 0 };
    char       text[WORD_TEXT] = "";
    if (comm->ranks == 1)
        return err;
    TRY(comm_share(comm, from, &report, sizeof report));
    if (!report.code)
        return OK;
    if (comm->rank == from)
        snprintf(text, sizeof text, "%s", err_text());
    TRY(comm_share(comm, from, text, sizeof text));
    return comm_refuse(comm, (Err)report.code, "%s", text);
}

typedef struct RankFact { /* of one rank */
    uint64_t hash;
    char     value[FACT_SHOWN];
} RankFact;

/* The number that most ranks have (among equals that of the lowest rank), and the first rank that
 * has another; -1: none. */
static int odd_one(const uint64_t *all, int ranks, int *usual)
{
    int best_count = 0;
    *usual = 0;
    for (int i = 0; i < ranks && best_count <= ranks / 2; i++) {
        int count = 0;
        for (int j = 0; j < ranks; j++)
            count += all[i] == all[j];
        if (count > best_count) {
            *usual = i;
            best_count = count;
        }
    }
    for (int i = 0; i < ranks; i++)
        if (all[i] != all[*usual])
            return i;
    return -1;
}

Err comm_odd(Comm *comm, uint64_t number, int *rank)
{
    int usual;
    *rank = -1;
    if (comm->ranks == 1)
        return OK;
    TRY(comm_all(comm, &number, sizeof number, comm->numbers));
    *rank = odd_one(comm->numbers, comm->ranks, &usual);
    return OK;
}

/* The hashes decide, the texts are for the sentence. */
static Err fact_check(Comm *comm, const CommFact *fact, const RankFact *all, int stride)
{
    int usual, odd;
    for (int i = 0; i < comm->ranks; i++)
        comm->numbers[i] = all[i * stride].hash;
    odd = odd_one(comm->numbers, comm->ranks, &usual);
    if (odd < 0)
        return OK;
    return comm_refuse(comm, E_USAGE,
                       "all ranks of a run must have the same %s, but rank %d on %s has %s, and "
                       "rank %d on %s has %s; %s",
                       fact->name, odd, comm_host(comm, odd), all[odd * stride].value, usual,
                       comm_host(comm, usual), all[usual * stride].value, fact->remedy);
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
