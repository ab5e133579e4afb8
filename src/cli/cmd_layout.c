/* cmd_layout.c -- `layout`: reads buffers with lifetimes, writes their offsets in one arena. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/text.h"
#include "layout/layout.h"

static struct {
    const char *capacity, *out;
    bool        json;
} opt;
static SearchOptions search;

static const Option options[] = {
    { "capacity", OPT_TEXT, &opt.capacity, "BYTES",
      "size of the arena; default: the smallest found" },
    { "o", OPT_TEXT, &opt.out, "FILE", "write the CSV with an offset column here" },
    SEARCH_OPTIONS(search, "search nodes; the default is enough for real graphs"),
    { "json", OPT_FLAG, &opt.json, NULL, "print the result as JSON" },
    { 0 }
};

static Err layout_json(const LayoutFile *file, const LayoutResult *result, int64_t capacity,
                       bool fits, double seconds)
{
    JsonOut o;
    json_out_stream(&o, stdout, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_int(&o, "buffers", file->n);
    json_out_int(&o, "capacity_bytes", capacity);
    json_out_int(&o, "arena_bytes", result->arena_bytes);
    json_out_int(&o, "bound_bytes", result->bound_bytes);
    json_out_int(&o, "gap_bytes", result->arena_bytes - result->bound_bytes);
    json_out_bool(&o, "fits", fits);
    json_out_bool(&o, "proved", result->proved);
    json_out_bool(&o, "cut", result->cut);
    json_out_int(&o, "search_nodes", result->n_nodes);
    json_out_number(&o, "seconds", seconds);
    json_out_end(&o);
    return json_out_done(&o);
}

static Err cmd_layout_run(Pool *pool, int n_args, char **args)
{
    LayoutFile    file;
    LayoutResult  result;
    LayoutOptions how = { .max_nodes = search.effort,
                          .time_limit_s = search.time_limit,
                          .seed = (uint64_t)search.seed };

    if (n_args != 1)
        return fail(E_USAGE,
                    "layout takes one file: plimsoll layout buffers.csv --capacity N -o out.csv");
    if (opt.capacity)
        TRY(bytes_read(opt.capacity, 0, &how.capacity));
    if (opt.capacity && how.capacity <= 0)
        return fail(E_USAGE, "--capacity must be more than 0 bytes");
    if (opt.out)
        TRY(file_try(opt.out));
    TRY(layout_read(pool, args[0], &file));

    double start = clock_now();
    Err    err = layout_within(pool, file.buffers, file.n, &how, &result);
    double seconds = clock_now() - start;
    if (err && err != E_BUDGET)
        return fail(err, "%s: %s (buffer 0 is the first below the heading)", args[0],
                    pool_text(pool, err_text()));
    TRY(layout_check(file.buffers, file.n, result.arena_bytes));
    if (opt.json)
        TRY(layout_json(&file, &result, how.capacity, !err, seconds));
    else
        print_sentence(stdout,
                       "%d buffers in %lld bytes (none smaller than %lld, gap %lld%s), %lld search "
                       "nodes, %.2f s%s",
                       file.n, (long long)result.arena_bytes, (long long)result.bound_bytes,
                       (long long)(result.arena_bytes - result.bound_bytes),
                       result.proved ? ", proved minimal" : "", (long long)result.n_nodes, seconds,
                       result.cut ? ", cut off" : "");
    if (err) /* again, since layout_check may have replaced the sentence */
        return fail(E_BUDGET,
                    "no layout within %lld bytes was found: the smallest found takes %lld, and "
                    "none can take less than %lld%s",
                    (long long)how.capacity, (long long)result.arena_bytes,
                    (long long)result.bound_bytes,
                    result.proved ? " (proved: none smaller exists)"
                    : result.cut  ? "; the time limit ended the search, try a longer --time-limit"
                                  : "; try a larger --effort");
    if (opt.out)
        return layout_write(opt.out, &file);
    if (!opt.json)
        next_command("layout %s --capacity %lld -o out.csv", text_word(pool, args[0]),
                     (long long)result.arena_bytes);
    return OK;
}

const Command cmd_layout = { "layout", "buffers.csv --capacity N -o out.csv",
                             "place buffers with lifetimes in one arena", options, cmd_layout_run };
