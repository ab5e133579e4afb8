/* results_file.h -- a benchmark's figures as a results file (bench/results/README.md): the option
 * --json FILE of every bench. Without it the rows go nowhere, so that a bench need not ask.
 *
 *   ResultsFile results;
 *   results_begin(&results, &argc, argv, "bench_time", "ratio: ...");
 *   JsonOut *row = results_row(&results, "unet-small");
 *   results_figure(row, "ms", 12.3456);
 *   json_out_end(row);
 *   results_end(&results);
 */
#ifndef BENCH_RESULTS_FILE_H
#define BENCH_RESULTS_FILE_H

#include "base/json_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct ResultsFile {
    FILE       *file;
    const char *path; /* NULL: no file was asked for */
    JsonOut     out;
} ResultsFile;

/* Takes "--json FILE" out of the arguments. */
static inline const char *results_option(int *argc, char **argv)
{
    const char *path = NULL;
    int         n = 0;
    for (int i = 0; i < *argc; i++)
        if (!strcmp(argv[i], "--json") && i + 1 < *argc)
            path = argv[++i];
        else
            argv[n++] = argv[i];
    *argc = n;
    return path;
}

/* BENCH_MACHINE, or cpu-Nc with the number of processors. */
static inline void results_machine(ResultsFile *results)
{
    const char *name = getenv("BENCH_MACHINE");
    char        here[32], line[256], cpu[256] = "unknown type";
    FILE       *info = fopen("/proc/cpuinfo", "r");
    snprintf(here, sizeof here, "cpu-%ldc", sysconf(_SC_NPROCESSORS_ONLN));
    while (info && fgets(line, sizeof line, info))
        if (sscanf(line, "model name : %255[^\n]", cpu) == 1)
            break;
    if (info)
        fclose(info);
    json_out_object_row(&results->out, "machine");
    json_out_string(&results->out, "name", name && *name ? name : here);
    json_out_string(&results->out, "cpu", cpu);
    json_out_int(&results->out, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    json_out_end(&results->out);
}

static inline void results_begin(ResultsFile *results, int *argc, char **argv, const char *command,
                                 const char *note)
{
    char   today[16];
    time_t now = time(NULL);
    results->path = results_option(argc, argv);
    results->file = fopen(results->path ? results->path : "/dev/null", "w");
    if (!results->file) {
        fprintf(stderr, "%s: %s cannot be written\n", command, results->path);
        exit(1);
    }
    strftime(today, sizeof today, "%Y-%m-%d", localtime(&now));
    json_out_stream(&results->out, results->file, JSON_PRETTY);
    json_out_object(&results->out, NULL);
    json_out_string(&results->out, "format", "plimsoll-bench-1");
    json_out_string(&results->out, "date", today);
    results_machine(results);
    json_out_string(&results->out, "command", command);
    json_out_string(&results->out, "note", note);
    json_out_array(&results->out, "rows");
}

static inline JsonOut *results_row(ResultsFile *results, const char *work)
{
    json_out_object_row(&results->out, NULL);
    json_out_string(&results->out, "work", work);
    return &results->out;
}

/* A measured number with the digits that mean something. */
static inline void results_figure(JsonOut *out, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    json_out_number(out, key, strtod(text, NULL));
}

static inline void results_end(ResultsFile *results)
{
    json_out_end(&results->out);
    json_out_end(&results->out);
    bool written = !json_out_done(&results->out) && !ferror(results->file);
    if ((fclose(results->file) || !written) && results->path) {
        fprintf(stderr, "%s was not written whole\n", results->path);
        exit(1);
    }
}

#endif
