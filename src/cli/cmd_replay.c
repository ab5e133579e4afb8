/* cmd_replay.c -- `replay`: a recording of PyTorch's allocator under other settings. */
#include "cli/cli.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "report/replay_pages.h"

static struct {
    TextList    conf;
    const char *recorded, *memory, *capacity, *html;
    int64_t     device;
    bool        json;
} opt = { .device = -1 };

static const Option options[] = {
    { "conf", OPT_LIST, &opt.conf, "TEXT",
      "settings to try, as in PYTORCH_CUDA_ALLOC_CONF; repeatable" },
    { "recorded", OPT_TEXT, &opt.recorded, "TEXT",
      "settings of the recording, in place of those in the file" },
    { "memory", OPT_TEXT, &opt.memory, "BYTES",
      "memory of the GPU, for per_process_memory_fraction" },
    { "capacity", OPT_TEXT, &opt.capacity, "BYTES",
      "limit on all segments; default: as a recorded failure shows" },
    { "device", OPT_NATURAL, &opt.device, "N", "the GPU; default: the one with the most events" },
    { "json", OPT_FLAG, &opt.json, NULL, "print the result as JSON" },
    { "html", OPT_TEXT, &opt.html, "FILE", "write a page that opens offline" },
    { 0 }
};

static const char *const usual[] = { "expandable_segments:True", "max_split_size_mb:128",
                                     "roundup_power2_divisions:8" };

static Err replay_size(const char *text, const char *option, int64_t *bytes)
{
    if (!text)
        return OK;
    TRY(bytes_read(text, 0, bytes));
    return *bytes > 0 ? OK : fail(E_USAGE, "--%s must be more than 0 bytes", option);
}

static Err cmd_replay_run(Pool *pool, int n_args, char **args)
{
    MemSnapshot   snap;
    ReplayAll     all;
    ReplayOptions how = { .recorded = opt.recorded,
                          .confs = opt.conf.items,
                          .n_confs = opt.conf.n };

    if (n_args != 1)
        return fail(E_USAGE, "replay takes one file: plimsoll replay snapshot.pickle "
                             "[--conf expandable_segments:True]");
    if (!how.n_confs) {
        how.confs = usual;
        how.n_confs = sizeof usual / sizeof *usual;
    }
    TRY(replay_size(opt.memory, "memory", &how.total_bytes));
    TRY(replay_size(opt.capacity, "capacity", &how.capacity_bytes));
    for (int i = 0; i < how.n_confs; i++) { /* before a large file is read */
        AllocConf conf;
        TRY(alloc_conf_read(how.confs[i], &conf));
    }
    if (opt.html)
        TRY(file_try(opt.html));
    TRY(snapshot_read(pool, args[0], opt.device > INT32_MAX ? INT32_MAX : (int)opt.device, &snap));
    TRY(replay_all(pool, &snap, &how, &all));
    if (opt.json)
        TRY(replay_json(stdout, &all));
    else
        replay_text(stdout, &all);
    if (opt.html)
        return replay_html(pool, opt.html, args[0], &all);
    if (!opt.json)
        next_command("replay %s --html replay.html", text_word(pool, args[0]));
    return OK;
}

const Command cmd_replay = { "replay", "snapshot.pickle [--conf TEXT]...",
                             "replay a PyTorch memory snapshot under other allocator settings",
                             options, cmd_replay_run };
