/* comm_watch.c -- ranks that wait: they answer each other, and find those that do not.
 *
 * A rank that waits for longer than the patience cannot know whom it waits for in the end: the rank
 * it expects bytes from may itself wait for a third. So it asks all others. A rank answers whenever
 * it waits or polls; one that is stopped, or whose machine or network is down, does not. Those that
 * have not answered after a while are silent. All that still answer find the same, about the same
 * time; the first of them ends the run, and the others give it some seconds before they do.
 *
 *   rank 0   waits for 1 .................... asks: 1 answers, 2 does not -> ends the run
 *   rank 1   waits for 2 ......................... asks: 0 answers, 2 does not -> waits for 0
 *   rank 2   step 7 (stopped)
 */
#include "comm/queue_int.h"

#include "base/clock.h"
#include "base/text.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SPIN_S      1e-3 /* looks at once for so long: messages in several sends need every look */
#define SHORT_SLEEP 50e-6
#define LONG_SLEEP  1e-3
#define LONG_WAIT_S 0.2 /* after so long, sleep longer */
#define LAUNCHER_S  10  /* a launcher may take so long to end all */

static const size_t word_head = offsetof(CommWord, text);

static Err watch_listen(Comm *comm)
{
    return comm->transport->receive(REQUEST_WORD, TRANSPORT_ANY, TAG_WORD, &comm->word,
                                    sizeof comm->word);
}

Err watch_open(Comm *comm)
{
    comm->words = NEWN(comm->pool, CommWord, comm->ranks);
    comm->word_out = NEWN(comm->pool, bool, comm->ranks);
    comm->answered = NEWN(comm->pool, bool, comm->ranks);
    TRY(comm->transport->reserve(REQUEST_WORDS_OUT + comm->ranks));
    return watch_listen(comm);
}

/* Leaves out a word to a rank that has not taken the last one: it does not listen. */
static Err watch_send(Comm *comm, int peer, WordKind kind, int32_t round)
{
    int request = REQUEST_WORDS_OUT + peer, done = 0;
    if (comm->word_out[peer])
        TRY(comm->transport->test(request, 1, &done));
    if (comm->word_out[peer] && !done)
        return OK;
    comm->words[peer] = (CommWord){
        .kind = (int32_t)kind, .rank = comm->rank, .round = round, .waits = comm->waits
    };
    comm->word_out[peer] = true;
    return comm->transport->send(request, peer, TAG_WORD, &comm->words[peer], (int64_t)word_head);
}

static Err watch_take(Comm *comm, const CommWord *word)
{
    switch ((WordKind)word->kind) {
    case WORD_ASK: return watch_send(comm, word->rank, WORD_ANSWER, word->round);
    case WORD_ANSWER:
        if (word->round == comm->round) {
            comm->answered[word->rank] = true;
            comm->works |= !word->waits;
        }
        return OK;
    case WORD_FAILED:
        return fail((Err)word->code, "rank %d on %s: %s", word->rank, comm_host(comm, word->rank),
                    word->text);
    }
    return OK;
}

Err watch_words(Comm *comm)
{
    int done;
    TRY(comm->transport->test(REQUEST_WORD, 1, &done));
    while (done) {
        CommWord word = comm->word;
        TRY(watch_listen(comm));
        TRY(watch_take(comm, &word));
        TRY(comm->transport->test(REQUEST_WORD, 1, &done));
    }
    return queue_serve(comm);
}

static void watch_sleep(double idle_s)
{
    double          s = idle_s < LONG_WAIT_S ? SHORT_SLEEP : LONG_SLEEP;
    struct timespec t = { 0, (long)(s * 1e9) };
    if (idle_s < SPIN_S)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

static Err watch_ask(Comm *comm, CommWait *wait)
{
    comm->round++;
    comm->works = false;
    memset(comm->answered, 0, (size_t)comm->ranks * sizeof *comm->answered);
    comm->answered[comm->rank] = true;
    wait->asked_at = clock_now();
    for (int i = 0; i < comm->ranks; i++)
        if (i != comm->rank)
            TRY(watch_send(comm, i, WORD_ASK, comm->round));
    return OK;
}

/* Time to answer: more than a rank sleeps, even on a busy machine. */
static double watch_grace(const Comm *comm)
{
    double grace = comm->patience / 4;
    return grace < 0.5 ? 0.5 : grace > 10 ? 10 : grace;
}

/* "rank 1 on b and rank 3 on d" */
static void watch_names(const Comm *comm, char *text, size_t room)
{
    int silent = 0, named = 0;
    for (int i = 0; i < comm->ranks; i++)
        silent += !comm->answered[i];
    *text = 0;
    for (int i = 0; i < comm->ranks && named < 3; i++) {
        if (comm->answered[i])
            continue;
        size_t n = strlen(text);
        snprintf(text + n, room - n, "%srank %d on %s",
                 !named                ? ""
                 : named + 1 == silent ? " and "
                                       : ", ",
                 i, comm_host(comm, i));
        named++;
    }
    size_t n = strlen(text);
    if (named < silent)
        snprintf(text + n, room - n, " and %d more", silent - named);
}

static Err watch_conclude(Comm *comm, const CommWait *wait, int silent)
{
    char names[4 * (COMM_HOST + 32)], step[48] = "";
    watch_names(comm, names, sizeof names);
    if (comm->step >= 0)
        snprintf(step, sizeof step, ", in step %lld", (long long)comm->step);
    comm->concluded = true;
    return fail(E_DEVICE,
                "%s %s been silent for %.0f s%s, while all other ranks wait: stopped, cut off from "
                "the network, or busy for longer than --patience allows. All ranks end; continue "
                "from the last checkpoint",
                names, silent > 1 ? "have" : "has", clock_now() - wait->since, step);
}

static Err watch_stuck(Comm *comm, const CommWait *wait)
{
    comm->concluded = true;
    return fail(E_DEVICE,
                "all ranks answer, and all have waited for %.0f s: the network moves almost "
                "nothing; give a larger --patience if it is that slow. All ranks end; continue "
                "from the last checkpoint",
                clock_now() - wait->since);
}

/* Nobody is silent: wait as long again. Ranks that all wait, twice, will wait for ever. */
static Err watch_all_answer(Comm *comm, CommWait *wait)
{
    bool stuck = !comm->works;
    if (stuck && wait->stuck && comm->rank == 0)
        return watch_stuck(comm, wait);
    wait->stuck = stuck;
    wait->answers++;
    wait->asked_at = 0;
    return OK;
}

static Err watch_answers(Comm *comm, CommWait *wait)
{
    double late = clock_now() - wait->asked_at - watch_grace(comm);
    int    silent = 0, first = comm->ranks;
    if (late < 0)
        return OK;
    for (int i = comm->ranks; i-- > 0;)
        if (comm->answered[i])
            first = i;
        else
            silent++;
    if (!silent)
        return watch_all_answer(comm, wait);
    if (first == comm->rank || late > watch_grace(comm) + LAUNCHER_S)
        return watch_conclude(comm, wait, silent);
    return OK;
}

Err watch_idle(Comm *comm, CommWait *wait)
{
    double idle = clock_now() - wait->since;
    TRY(watch_words(comm));
    if (wait->asked_at <= 0 && idle > comm->patience * (1 + wait->answers))
        TRY(watch_ask(comm, wait));
    if (wait->asked_at > 0)
        TRY(watch_answers(comm, wait));
    watch_sleep(idle);
    return OK;
}

Err watch_rest(Comm *comm, double idle_s)
{
    TRY(watch_words(comm));
    watch_sleep(idle_s < LONG_WAIT_S ? idle_s : SPIN_S);
    return OK;
}

void watch_tell_failure(Comm *comm, Err err)
{
    double until = clock_now() + comm->patience;
    comm->failure = (CommWord){ .kind = WORD_FAILED, .rank = comm->rank, .code = (int32_t)err };
    snprintf(comm->failure.text, sizeof comm->failure.text, "%s", err_text());
    if (comm->transport->send(REQUEST_FAILURE, 0, TAG_WORD, &comm->failure, sizeof comm->failure))
        return;
    while (clock_now() < until && !watch_words(comm))
        watch_sleep(LONG_WAIT_S);
    fail(err, "rank %d on %s: %s", comm->rank, comm_host(comm, comm->rank), comm->failure.text);
}

void watch_close(Comm *comm)
{
    for (int i = 0; i < comm->ranks; i++)
        for (int done = 0; comm->word_out[i] && !done;)
            if (comm->transport->test(REQUEST_WORDS_OUT + i, 1, &done))
                break;
    comm->transport->cancel(REQUEST_WORD);
}
