/* err.h -- one way to fail: a code for the program, a sentence for the person.
 *
 * The sentence is written where the cause is known, by fail(), and printed once, by cli/main.c.
 * It gives the numbers and the remedy. There are three kinds of failure:
 *   outside the program (file, device, budget) -> return fail(...)
 *   a bug in the program                       -> REQUIRE(...) stops with file and line
 *   a model was built wrongly                  -> a poisoned Tensor, see ir/graph.h
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/*        name      exit code   meaning */
/* clang-format off */
#define ERR_LIST(X)                                                     \
    X(OK,           0, "done")                                          \
    X(E_USAGE,      2, "wrong option, recipe key or argument")          \
    X(E_BUDGET,     3, "does not fit the budget")                       \
    X(E_IO,         1, "a file could not be read or written")           \
    X(E_FORMAT,     1, "a file is not what it claims to be")            \
    X(E_SHAPE,      1, "shapes or types do not go together")            \
    X(E_DEVICE,     1, "a device or vendor library refused")            \
    X(E_PLAN,       1, "a plan or layout was rejected by its checker")  \
    X(E_NUMBER,     1, "a value is not finite")
/* clang-format on */

typedef enum Err {
#define X(name, exit_code, text) name,
    ERR_LIST(X)
#undef X
        ERR_COUNT
} Err;

Err         fail(Err code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *err_text(void); /* the sentence of this thread's last fail() */
int         err_exit_code(Err code);
void        require_failed(const char *cond, const char *file, int line) __attribute__((noreturn));

#define TRY(call)                                                                                  \
    do {                                                                                           \
        Err err_ = (call);                                                                         \
        if (err_)                                                                                  \
            return err_;                                                                           \
    } while (0)
#define REQUIRE(cond) ((cond) ? (void)0 : require_failed(#cond, __FILE__, __LINE__))

#endif
