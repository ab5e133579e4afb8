/* milp.c -- builds, writes and solves mixed integer programs (milp.h). */
#include "plan/proof/milp.h"

#include "base/clock.h"
#include "base/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int32_t milp_column(Milp *m, MilpColumn column)
{
    VEC_ADD(m->pool, m->columns, m->n_columns, m->cap_columns, column);
    return m->n_columns - 1;
}

void milp_row(Milp *m, double low, double high)
{
    MilpRow row = { m->n_terms, low, high };
    VEC_ADD(m->pool, m->rows, m->n_rows, m->cap_rows, row);
}

void milp_term(Milp *m, int32_t column, double factor)
{
    MilpTerm term = { column, factor };
    VEC_ADD(m->pool, m->terms, m->n_terms, m->cap_terms, term);
}

static int32_t milp_row_end(const Milp *m, int32_t row)
{
    return row + 1 < m->n_rows ? m->rows[row + 1].first : m->n_terms;
}

static void milp_write_name(FileOut *f, const MilpColumn *c)
{
    file_out_print(f, "%c%d_%d", c->letter, c->a, c->b);
    if (c->c >= 0)
        file_out_print(f, "_%d", c->c);
}

static void milp_write_terms(FileOut *f, const Milp *m, int32_t row)
{
    for (int32_t i = m->rows[row].first; i < milp_row_end(m, row); i++) {
        file_out_print(f, " %+.17g ", m->terms[i].factor);
        milp_write_name(f, &m->columns[m->terms[i].column]);
        if ((i - m->rows[row].first) % 8 == 7) /* some readers limit the line length */
            file_out_print(f, "\n  ");
    }
}

Err milp_write(const Milp *m, const char *path)
{
    FileOut file, *f = &file;
    TRY(file_out_init(f, path));
    file_out_print(f,
                   "\\ minimise the cost of second runs; see docs/PLANNING.md\nMinimize\n cost:");
    for (int32_t c = 0, n = 0; c < m->n_columns; c++) {
        if (m->columns[c].cost == 0)
            continue;
        file_out_print(f, " %+.17g ", m->columns[c].cost);
        milp_write_name(f, &m->columns[c]);
        if (n++ % 8 == 7)
            file_out_print(f, "\n  ");
    }
    file_out_print(f, "\nSubject To\n");
    for (int32_t r = 0; r < m->n_rows; r++) {
        const MilpRow *row = &m->rows[r];
        bool           equal = row->low == row->high;
        if (row->low > -MILP_FREE) {
            file_out_print(f, " r%d%s:", r, equal ? "" : "a");
            milp_write_terms(f, m, r);
            file_out_print(f, " %s %.17g\n", equal ? "=" : ">=", row->low);
        }
        if (row->high < MILP_FREE && !equal) {
            file_out_print(f, " r%d:", r);
            milp_write_terms(f, m, r);
            file_out_print(f, " <= %.17g\n", row->high);
        }
    }
    file_out_print(f, "Bounds\n");
    for (int32_t c = 0; c < m->n_columns; c++) {
        file_out_print(f, " %.17g <= ", m->columns[c].low);
        milp_write_name(f, &m->columns[c]);
        file_out_print(f, " <= %.17g\n", m->columns[c].high);
    }
    file_out_print(f, "General\n");
    for (int32_t c = 0; c < m->n_columns; c++) {
        if (!m->columns[c].whole)
            continue;
        file_out_print(f, " ");
        milp_write_name(f, &m->columns[c]);
        file_out_print(f, "\n");
    }
    file_out_print(f, "End\n");
    return file_out_done(f, OK);
}

/* The functions used of CBC's C interface (2.9 and later). */
#define CBC_LIST(X)                                                                                \
    X(void *, Cbc_newModel, (void))                                                                \
    X(void, Cbc_deleteModel, (void *))                                                             \
    X(void, Cbc_loadProblem,                                                                       \
      (void *, int, int, const int *, const int *, const double *, const double *, const double *, \
       const double *, const double *, const double *))                                            \
    X(void, Cbc_setInteger, (void *, int))                                                         \
    X(void, Cbc_setParameter, (void *, const char *, const char *))                                \
    X(int, Cbc_solve, (void *))                                                                    \
    X(int, Cbc_isProvenOptimal, (void *))                                                          \
    X(int, Cbc_isProvenInfeasible, (void *))                                                       \
    X(int, Cbc_numberSavedSolutions, (void *))                                                     \
    X(double, Cbc_getObjValue, (void *))                                                           \
    X(double, Cbc_getBestPossibleObjValue, (void *))                                               \
    X(const double *, Cbc_getColSolution, (void *))

typedef struct Cbc {
#define X(type, name, args) type(*name) args;
    CBC_LIST(X)
#undef X
} Cbc;

static bool cbc_load(Cbc *cbc)
{
    void *lib = dlopen("libCbcSolver.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        lib = dlopen("libCbcSolver.so", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return false; /* never unloaded: its static objects do not survive a second load */
    bool all = true;
#define X(type, name, args)                                                                        \
    *(void **)&cbc->name = dlsym(lib, #name);                                                      \
    all &= cbc->name != NULL;
    CBC_LIST(X)
#undef X
    return all;
}

bool milp_can_solve(void)
{
    Cbc cbc;
    return cbc_load(&cbc);
}

/* Converts rows to columns, as CBC needs them. */
static void milp_load(Pool *pool, const Cbc *cbc, void *model, const Milp *m)
{
    int    *start = NEWN(pool, int, m->n_columns + 2), *index = NEWN(pool, int, m->n_terms + 1);
    double *value = NEWN(pool, double, m->n_terms + 1),
           *cost = NEWN(pool, double, m->n_columns + 1);
    double *low = NEWN(pool, double, m->n_columns + 1),
           *high = NEWN(pool, double, m->n_columns + 1);
    double *row_low = NEWN(pool, double, m->n_rows + 1),
           *row_high = NEWN(pool, double, m->n_rows + 1);
    for (int32_t i = 0; i < m->n_terms; i++)
        start[m->terms[i].column + 1]++;
    for (int32_t c = 0; c < m->n_columns; c++) {
        start[c + 1] += start[c];
        low[c] = m->columns[c].low;
        high[c] = m->columns[c].high;
        cost[c] = m->columns[c].cost;
    }
    int *fill = NEWN(pool, int, m->n_columns + 1);
    memcpy(fill, start, sizeof *fill * (size_t)(m->n_columns + 1));
    for (int32_t r = 0; r < m->n_rows; r++) {
        row_low[r] = m->rows[r].low;
        row_high[r] = m->rows[r].high;
        for (int32_t i = m->rows[r].first; i < milp_row_end(m, r); i++) {
            int at = fill[m->terms[i].column]++;
            index[at] = r;
            value[at] = m->terms[i].factor;
        }
    }
    cbc->Cbc_loadProblem(model, m->n_columns, m->n_rows, start, index, value, low, high, cost,
                         row_low, row_high);
    for (int32_t c = 0; c < m->n_columns; c++) {
        if (m->columns[c].whole)
            cbc->Cbc_setInteger(model, c);
    }
}

typedef struct Reply { /* from the child, followed by x if there is one */
    double cost, bound;
    bool   closed, has_x;
} Reply;

static bool pipe_write(int fd, const void *bytes, size_t n)
{
    for (const char *p = bytes; n > 0;) {
        ssize_t k = write(fd, p, n);
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* False: the writer ended, or the deadline passed. */
static bool pipe_read(int fd, void *bytes, size_t n, double deadline_s)
{
    for (char *p = bytes; n > 0;) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        double        left = deadline_s - clock_now();
        ssize_t       k = 0;
        if (left <= 0 || poll(&wait, 1, (int)fmin(left * 1000 + 1, 1e6)) < 0)
            return false;
        if (wait.revents && (k = read(fd, p, n)) <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void milp_child(int fd, const Cbc *cbc, const Milp *m, double cutoff, double seconds)
{
    int quiet = open("/dev/null", O_WRONLY); /* CBC prints to stdout */
    dup2(quiet, 1);
    dup2(quiet, 2);
    Pool *temp = pool_new(NULL, "milp_solve");
    void *model = cbc->Cbc_newModel();
    milp_load(temp, cbc, model, m);
    cbc->Cbc_setParameter(model, "log", "0");
    cbc->Cbc_setParameter(model, "timeMode", "elapsed");
    cbc->Cbc_setParameter(model, "seconds", pool_print(temp, "%.3f", seconds));
    cbc->Cbc_setParameter(model, "cutoff", pool_print(temp, "%.12g", cutoff));
    cbc->Cbc_solve(model);
    bool  infeasible = cbc->Cbc_isProvenInfeasible(model);
    bool  optimal = cbc->Cbc_isProvenOptimal(model);
    Reply reply = {
        .cost = cbc->Cbc_getObjValue(model),
        .bound = cbc->Cbc_getBestPossibleObjValue(model),
        .closed = infeasible || optimal,
    };
    reply.has_x = !infeasible && reply.cost < MILP_FREE /* 1e50: none */
                  && (optimal || cbc->Cbc_numberSavedSolutions(model) > 0);
    if (pipe_write(fd, &reply, sizeof reply) && reply.has_x)
        pipe_write(fd, cbc->Cbc_getColSolution(model), sizeof(double) * (size_t)m->n_columns);
    _exit(0);
}

/* Runs CBC in its own process: CBC checks the clock only between its phases, and the first linear
 * program of a large graph can take minutes. */
Err milp_solve(Pool *pool, const Milp *m, double cutoff, double seconds, MilpAnswer *answer)
{
    Cbc   cbc;
    int   ends[2];
    Reply reply = { 0 };
    if (!cbc_load(&cbc))
        return fail(E_DEVICE, "CBC is not installed: apt-get install coinor-libcbc3, or write the "
                              "program with --prove-lp FILE and give it to any solver");
    if (pipe(ends))
        return fail(E_IO, "no pipe for CBC: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0)
        milp_child(ends[1], &cbc, m, cutoff, seconds);
    close(ends[1]);
    *answer = (MilpAnswer){ 0 };
    double *x = NEWN(pool, double, m->n_columns + 1), deadline = clock_now() + 1.25 * seconds + 1;
    if (child > 0 && pipe_read(ends[0], &reply, sizeof reply, deadline)) {
        answer->cost = reply.cost;
        answer->closed = reply.closed;
        if (reply.has_x && pipe_read(ends[0], x, sizeof *x * (size_t)m->n_columns, deadline + 1))
            answer->x = x;
        answer->bound = reply.closed ? reply.has_x ? reply.cost : cutoff : reply.bound;
        answer->bound = fmin(fmax(answer->bound, 0), cutoff);
    }
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL); /* too late, or about to end */
        waitpid(child, NULL, 0);
    }
    return child < 0 ? fail(E_IO, "no process for CBC: %s", strerror(errno)) : OK;
}
