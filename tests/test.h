/* test.h -- what every test program includes: checks that print both sides, and a count.
 *
 *   static void adds_up(void) { CHECK_INT(1 + 1, 2); }
 *   int main(void) { RUN(adds_up); return test_end(); }
 *
 * A failed check is printed and counted, and the test goes on. Where data or a tool is missing, a
 * test says so with SKIP and returns; a missing input never counts as a pass. The closing line is
 *
 *   12 passed, 0 failed, 2 skipped: CBC is not installed
 *
 * with the first reason. Exit status: 0, no check failed; 1, one failed or nothing ran; 77,
 * everything was skipped (ctest shows the program as skipped).
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEST_SKIPPED = 77 }; /* exit status that CMakeLists.txt gives to ctest */

static int         test_failed, test_passed, test_skipped;
static char        test_skip_reason[200]; /* of the first skip */
static const char *test_name = "";

#define CHECK(cond)           test_check((cond), #cond, __FILE__, __LINE__)
#define CHECK_INT(a, b)       test_int((long long)(a), (long long)(b), #a, #b, __FILE__, __LINE__)
#define CHECK_NEAR(a, b, tol) test_near((a), (b), (tol), #a, #b, __FILE__, __LINE__)
#define CHECK_TEXT(a, b)      test_text((a), (b), #a, __FILE__, __LINE__)
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        Err e_ = (call);                                                                           \
        if (e_) {                                                                                  \
            fprintf(stderr, "  said: %s\n", err_text());                                           \
        }                                                                                          \
        CHECK_INT(e_, OK);                                                                         \
    } while (0)
#define SKIP(reason) test_skip(reason)
#define RUN(fn)                                                                                    \
    do {                                                                                           \
        test_name = #fn;                                                                           \
        fn();                                                                                      \
    } while (0)

/* Tests write where they are started. A program that is started by hand in the source tree goes to
 * its own folder, below the build's, so that nothing is left behind in the tree. */
static __attribute__((constructor)) void test_leave_source_tree(void)
{
#if defined(SOURCE_DIR) && !defined(TEST_TAKES_PATHS)
    char    here[4096], program[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!getcwd(here, sizeof here) || strcmp(here, SOURCE_DIR) != 0 || n <= 0)
        return;
    program[n] = '\0';
    slash = strrchr(program, '/');
    if (slash && slash > program) {
        *slash = '\0';
        if (chdir(program))
            perror(program);
    }
#endif
}

static inline int test_check(int ok, const char *text, const char *file, int line)
{
    if (ok) {
        test_passed++;
        return 1;
    }
    test_failed++;
    fprintf(stderr, "%s:%d: in %s: not true: %s\n", file, line, test_name, text);
    return 0;
}

static inline int test_int(long long a, long long b, const char *ta, const char *tb,
                           const char *file, int line)
{
    if (a == b) {
        test_passed++;
        return 1;
    }
    test_failed++;
    fprintf(stderr, "%s:%d: in %s: %s is %lld, %s is %lld\n", file, line, test_name, ta, a, tb, b);
    return 0;
}

static inline int test_near(double a, double b, double tol, const char *ta, const char *tb,
                            const char *file, int line)
{
    if (fabs(a - b) <= tol) {
        test_passed++;
        return 1;
    }
    test_failed++;
    fprintf(stderr, "%s:%d: in %s: %s is %.9g, %s is %.9g, more than %g apart\n", file, line,
            test_name, ta, a, tb, b, tol);
    return 0;
}

static inline int test_text(const char *a, const char *b, const char *ta, const char *file,
                            int line)
{
    if (!strcmp(a, b)) {
        test_passed++;
        return 1;
    }
    test_failed++;
    fprintf(stderr, "%s:%d: in %s: %s is\n  \"%s\"\nand should be\n  \"%s\"\n", file, line,
            test_name, ta, a, b);
    return 0;
}

static inline void test_skip(const char *reason)
{
    if (test_skipped++ == 0)
        snprintf(test_skip_reason, sizeof test_skip_reason, "%s", reason);
    printf("skipped in %s: %s\n", test_name, reason);
}

static inline int test_end(void)
{
    printf("%d passed, %d failed, %d skipped%s%s\n", test_passed, test_failed, test_skipped,
           test_skipped ? ": " : "", test_skip_reason);
    if (test_failed == 0 && test_passed == 0 && test_skipped > 0)
        return TEST_SKIPPED;
    return test_failed != 0 || test_passed == 0;
}

#endif
