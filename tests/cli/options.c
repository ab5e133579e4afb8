/* Tests of cli/options: every kind of option as a user may write it, refusals, and the help. */
#include "test.h"

#include "cli/cli.h"

#include <stdlib.h>

static struct {
    bool        flag;
    const char *text, *out;
    int64_t     whole, natural, count;
    double      number, seconds;
    TextList    list;
} opt;

static const Option options[] = {
    { "flag", OPT_FLAG, &opt.flag, NULL, "a flag" },
    { "text", OPT_TEXT, &opt.text, "T", "a text" },
    { "o", OPT_TEXT, &opt.out, "FILE", "a file" },
    { "whole", OPT_INT, &opt.whole, "N", "a whole number", GROUP_RANKS },
    { "natural", OPT_NATURAL, &opt.natural, "N", "0 or more", GROUP_MODEL },
    { "count", OPT_COUNT, &opt.count, "N", "1 or more", GROUP_RANKS },
    { "number", OPT_NUMBER, &opt.number, "X", "a number" },
    { "seconds", OPT_SECONDS, &opt.seconds, "S", "seconds" },
    { "list", OPT_LIST, &opt.list, "K=V", "may be repeated", GROUP_MODEL },
    { 0 }
};

static const Command command = { "try", "MODEL", "tries options", options, NULL };

enum { MAX_WORDS = 80 };

/* Reads words that spaces separate; *n_args and args: what is no option. */
static Err given(const char *words, char **args, int *n_args, bool *help)
{
    static char text[1024];
    char       *argv[MAX_WORDS];
    int         argc = 0;
    memset(&opt, 0, sizeof opt);
    *help = false;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok(text, " "); word && argc < MAX_WORDS; word = strtok(NULL, " "))
        argv[argc++] = word;
    return options_read(&command, argc, argv, args, n_args, help);
}

static void as_written(void)
{
    char *args[MAX_WORDS];
    int   n;
    bool  help;
    CHECK_OK(given("one --text a=b --flag two -ofile --count=3 --list a=1 --list b=2 --number 1e-3 "
                   "--natural 0 --whole -7 --seconds .5 - -- --flag",
                   args, &n, &help));
    CHECK_INT(n, 4);
    CHECK_TEXT(args[0], "one");
    CHECK_TEXT(args[1], "two");
    CHECK_TEXT(args[2], "-");
    CHECK_TEXT(args[3], "--flag"); /* after --, every word is an argument */
    CHECK_TEXT(opt.text, "a=b");
    CHECK_TEXT(opt.out, "file");
    CHECK(opt.flag && !help);
    CHECK_INT(opt.count, 3);
    CHECK_INT(opt.natural, 0);
    CHECK_INT(opt.whole, -7);
    CHECK_NEAR(opt.number, 1e-3, 0);
    CHECK_NEAR(opt.seconds, 0.5, 0);
    CHECK_INT(opt.list.n, 2);
    CHECK_TEXT(opt.list.items[1], "b=2");
    CHECK_OK(given("--text a --text b", args, &n, &help)); /* the last one counts */
    CHECK_TEXT(opt.text, "b");
    CHECK_OK(given("--text a -h --nothing", args, &n, &help));
    CHECK(help);
}

static void refused(void)
{
    static const struct {
        const char *words, *says;
    } rows[] = {
        { "--txt a", "try has no option '--txt'; did you mean '--text'?" },
        { "--unlike-any a", "try has no option '--unlike-any'; see plimsoll try --help" },
        { "-x", "try has no option '-x'" },
        { "--o file", NULL }, /* one letter: also with two dashes */
        { "--text", "--text needs a value" },
        { "--flag=1", "--flag takes no value" },
        { "--whole 1.5", "--whole takes a whole number, not '1.5'" },
        { "--whole 99999999999999999999", "--whole takes a whole number" },
        { "--natural -1", "--natural takes 0 or more, not -1" },
        { "--count 0", "--count takes 1 or more, not 0" },
        { "--count 2147483648", "--count takes at most 2147483647, not 2147483648" },
        { "--number nan", "--number takes a number, not 'nan'" },
        { "--seconds 0", "--seconds takes seconds, more than 0, not 0" },
    };
    char *args[MAX_WORDS];
    int   n;
    bool  help;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Err err = given(rows[i].words, args, &n, &help);
        CHECK_INT(err, rows[i].says ? E_USAGE : OK);
        if (rows[i].says && strncmp(err_text(), rows[i].says, strlen(rows[i].says)))
            CHECK_TEXT(err_text(), rows[i].says);
    }
}

static void too_many(void)
{
    enum { MAX_LIST = sizeof opt.list.items / sizeof *opt.list.items };
    static char name[] = "--list", value[] = "k=v";
    char       *argv[2 * (MAX_LIST + 1)], *args[2 * (MAX_LIST + 1)];
    int         n;
    bool        help = false;
    for (int i = 0; i <= MAX_LIST; i++) {
        argv[2 * i] = name;
        argv[2 * i + 1] = value;
    }
    memset(&opt, 0, sizeof opt);
    CHECK_OK(options_read(&command, 2 * MAX_LIST, argv, args, &n, &help));
    CHECK_INT(opt.list.n, MAX_LIST);
    memset(&opt, 0, sizeof opt);
    CHECK_INT(options_read(&command, 2 * (MAX_LIST + 1), argv, args, &n, &help), E_USAGE);
}

/* Options of the command come first, then those of a group under its heading. */
static void help_in_groups(void)
{
    char  page[4096] = "";
    FILE *to = fmemopen(page, sizeof page, "w");
    command_help(to, &command);
    fclose(to);
    CHECK_TEXT(page, "plimsoll try MODEL\n"
                     "  tries options\n"
                     "\n"
                     "  --flag                     a flag\n"
                     "  --text T                   a text\n"
                     "  -o FILE                    a file\n"
                     "  --number X                 a number\n"
                     "  --seconds S                seconds\n"
                     "\n"
                     "model, device and memory\n"
                     "  --natural N                0 or more\n"
                     "  --list K=V                 may be repeated\n"
                     "\n"
                     "several ranks\n"
                     "  --whole N                  a whole number\n"
                     "  --count N                  1 or more\n");
}

static void budgets_of_kept(void)
{
    int64_t bytes;
    CHECK(budget_is_of_kept("80%kept") && !budget_is_of_kept("80%") && !budget_is_of_kept("%kept"));
    CHECK_OK(budget_of_kept("80%kept", 1000, &bytes));
    CHECK_INT(bytes, 800);
    CHECK_OK(budget_of_kept("0.01%kept", 1000, &bytes)); /* a part of a byte is a byte */
    CHECK_INT(bytes, 1);
    CHECK_INT(budget_of_kept("0%kept", 1000, &bytes), E_USAGE);
    CHECK_INT(budget_of_kept("x%kept", 1000, &bytes), E_USAGE);
}

int main(void)
{
    RUN(as_written);
    RUN(refused);
    RUN(too_many);
    RUN(help_in_groups);
    RUN(budgets_of_kept);
    return test_end();
}
