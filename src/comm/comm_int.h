/* comm_int.h -- what the files of this room share: a Comm's fields, its requests and waits.
 *
 * A transport's requests are numbered, in this order:
 *
 *   word received | word sent to rank 0 | small records | words sent, by peer | slot 0 | slot 1 ...
 */
#ifndef COMM_COMM_INT_H
#define COMM_COMM_INT_H

#include "comm/comm.h"
#include "comm/transport.h"

enum {
    REQUEST_WORD,
    REQUEST_FAILURE,
    REQUEST_RECORDS,
    N_RECORDS = 4, /* requests of one round of a small record */
    REQUEST_WORDS_OUT = REQUEST_RECORDS + N_RECORDS
};

enum { TAG_RECORD = COMM_SLOTS, TAG_WORD }; /* below: the slot */

/* What ranks tell each other beside the transfers. */
typedef enum WordKind { WORD_ASK, WORD_ANSWER, WORD_FAILED } WordKind;

enum { WORD_TEXT = 1024 };

typedef struct CommWord {
    int32_t kind, rank; /* of the sender */
    int32_t round;      /* of asking: answers to an earlier round are too old */
    int32_t waits;      /* the sender waits too; 0: it computes */
    int32_t code;       /* of a failure; an Err */
    char    text[WORD_TEXT];
} CommWord;

typedef struct RankReport { /* for comm_agree */
    int32_t  code;          /* an Err */
    uint64_t sentence;      /* its hash */
} RankReport;

typedef struct CommSlot {
    bool busy;    /* started and not waited for */
    int  n, open; /* requests, and those not done yet */
} CommSlot;

struct Comm {
    Pool *pool;
    int   rank, ranks;
    char (*hosts)[COMM_HOST];   /* by rank */
    const Transport *transport; /* NULL: one rank */
    char             library[TRANSPORT_NAME];
    int64_t          held;

    bool        prepared;
    int         max_parts;
    int64_t     max_bytes, max_message; /* longer parts travel as several messages */
    int         slot_requests;          /* of each slot */
    CommSlot    slots[COMM_SLOTS];
    unsigned   *flags;   /* by rank: comm_any */
    RankReport *reports; /* by rank */
    uint64_t   *numbers; /* by rank: comm_odd */

    double    patience;
    int64_t   step;  /* -1: none yet */
    CommWord  word;  /* the next that arrives */
    CommWord *words; /* by peer: under way to it, or free */
    bool     *word_out;
    CommWord  failure;
    bool     *answered; /* by rank: in this round */
    int       round;
    bool      waits;  /* in a wait, not in comm_poll */
    double    waited; /* seconds */
    bool      works;  /* a rank that answered in this round computes */

    struct CommQueue *queue; /* of the device (queue.h); NULL: transfers are of host memory only */

    bool agreed;    /* all ranks know of the failure */
    bool concluded; /* this rank found others silent, and is to say so */
    bool ended;     /* comm_end found all ranks well */
    int  exit_code;
};

/* One wait: for requests, or for other ranks to end this one. */
typedef struct CommWait {
    double since;    /* of the last progress */
    double asked_at; /* 0: not asked since then */
    int    answers;  /* rounds in which all others answered */
    bool   stuck;    /* ... and all of them waited */
} CommWait;

Err  comm_test(Comm *comm, int slot, bool *done);         /* comm_wait without waiting */
Err  comm_await(Comm *comm, int first, int n, int *open); /* until no request is open */
Err  watch_open(Comm *comm);                              /* before the first wait */
Err  watch_words(Comm *comm);
Err  watch_idle(Comm *comm, CommWait *wait); /* nothing moved: looks at words and patience */
/* The same for a rank that no other keeps waiting; it never sleeps for long, because a transfer of
 * its device may begin at any time. */
Err  watch_rest(Comm *comm, double idle_s);
void watch_tell_failure(Comm *comm, Err err); /* to rank 0; waits to be ended by it */
void watch_close(Comm *comm);

#endif
