/* cmd_probe.c -- `probe`: measures this machine and writes a profile. */
#include "cli/model_options.h"

#include "base/file.h"
#include "base/shipped.h"
#include "base/terminal.h"
#include "base/text.h"
#include "device/memory.h"
#include "comm/agree.h"
#include "profile/probe.h"
#include "profile/probe_wire.h"
#include "train/measure.h"

#include <string.h>

static ModelOptions model = { .runs = true };
static struct {
    const char *out, *take;
    TextList    recipes;
    bool        ops, wire;
    double      seconds;
} opt = { .seconds = 3 };

static const Option options[] = {
    { "o", OPT_TEXT, &opt.out, "FILE",
      "write the profile here; default: where every command looks for it" },
    { "model", OPT_LIST, &opt.recipes, "R",
      "also time the operators of recipe R in real steps; may be repeated" },
    { "ops", OPT_FLAG, &opt.ops, NULL, "time the operators of every small recipe" },
    { "wire", OPT_FLAG, &opt.wire, NULL,
      "under mpirun or srun: measure only the links between ranks" },
    { "seconds", OPT_NUMBER, &opt.seconds, "S", "seconds of steps for each recipe; default 3" },
    { "take", OPT_TEXT, &opt.take, "B",
      "allocate at most this much memory; default: 7/8 of what is free" },
    MODEL_OPTIONS(model),
    { 0 }
};

static void show_probing(void *unused, double done, const char *text)
{
    (void)unused;
    show_progress("measuring", done, text);
}

typedef void     Progress(void *, double, const char *);
static Progress *probe_progress(void) { return terminal_draws() ? show_probing : NULL; }

static Err probe_memory(Pool *pool, const Device *device, Profile *profile)
{
    MemoryLimits limits = memory_limits();
    TakenMemory  taken;
    TakeOptions take = { .reserve = limits.total / 8, .seconds = 15, .progress = probe_progress() };
    if (opt.take)
        TRY(bytes_read(opt.take, memory_left(&limits), &take.most));
    TRY(memory_take(&take, &taken));
    if (!taken.bytes)
        return fail(E_DEVICE, "no memory could be taken: %s free of %s",
                    bytes_text(memory_left(&limits)), bytes_text(limits.total));
    printf("memory     %s taken and written (%s); the system says %s of %s are free\n",
           bytes_text(taken.bytes), taken.ended_by, bytes_text(limits.available),
           bytes_text(limits.total));
    if (limits.cgroup != INT64_MAX)
        printf("           the control group allows %s, %s of it are left\n",
               bytes_text(limits.cgroup), bytes_text(limits.cgroup_left));
    if (limits.address_left != INT64_MAX)
        printf("           ulimit -v leaves %s of address space\n",
               bytes_text(limits.address_left));
    profile->total_bytes = limits.total < limits.cgroup ? limits.total : limits.cgroup;
    profile->usable_bytes = taken.bytes < profile->total_bytes ? taken.bytes : profile->total_bytes;
    profile->runtime_bytes = device_runtime_bytes(device, 0);
    profile->memory_origin = pool_print(
        pool,
        "total: the system's or the control group's word; usable: taken and written (%s); runtime: "
        "this program with its libraries, resident; measured on %s",
        taken.ended_by, device->model);
    return OK;
}

static bool probe_on_gpu(void) { return model.device && !strcmp(model.device, "cuda"); }

static Err probe_open(Pool *pool, bool tf32, Device **device)
{
    DeviceOptions with = { .threads = (int)model.threads, .backend = model.backend, .tf32 = tf32 };
    return probe_on_gpu() ? device_cuda(pool, &with, device) : device_cpu(pool, &with, device);
}

static Err probe_machine(Pool *pool, const Device *device, Profile *profile)
{
    ProbeOptions how = { .progress = probe_progress() };
    if (probe_on_gpu()) {
        Device *tf32;
        TRY(probe_open(pool, true, &tf32));
        TRY(probe_gpu(pool, device, tf32, &how, profile));
        printf("memory     %s in one arena, of %s; %s outside it\n",
               bytes_text(profile->usable_bytes), bytes_text(profile->total_bytes),
               bytes_text(profile->runtime_bytes));
        printf("transfers  to the host %.1f, to the GPU %.1f GB/s\n", profile->to_host * 1e-9,
               profile->to_device * 1e-9);
    } else {
        TRY(probe_memory(pool, device, profile));
        TRY(probe_rates(pool, device, &how, profile));
    }
    if (terminal_draws())
        show_progress("measuring", 1, "");
    for (int32_t i = 0; i < profile->n_bandwidth; i++)
        printf("bandwidth  %s: read %.1f, write %.1f, copy %.1f GB/s\n",
               profile->bandwidth[i].threads
                   ? pool_print(pool, "%2lld threads", (long long)profile->bandwidth[i].threads)
                   : "all of it",
               profile->bandwidth[i].read * 1e-9, profile->bandwidth[i].write * 1e-9,
               profile->bandwidth[i].copy * 1e-9);
    for (int32_t i = 0; i < profile->n_rates; i++) {
        const Rate *rate = &profile->rates[i], *next = i + 1 < profile->n_rates ? rate + 1 : NULL;
        /* the largest size */
        if (!next || next->kind != rate->kind || strcmp(next->type, rate->type))
            printf("%-10s %s: %.1f GFLOP/s\n", rate->kind == RATE_MATMUL ? "matmul" : "conv",
                   rate->type, rate->flops_per_s * 1e-9);
    }
    printf("launch     %.2f us\n", profile->launch_ns * 1e-3);
    return OK;
}

static const char *disturbed = ""; /* names the recipes whose times are, in the profile too */

static Err probe_recipe(Pool *pool, const char *name, Profile *profile)
{
    Recipe        *recipe;
    Device        *device;
    Measured       m;
    MeasureOptions measure = { .seconds = opt.seconds, .progress = probe_progress() };
    TRY(model_open(pool, &model, name, NULL, 0, &recipe, &device, &measure.budget_bytes));
    TRY(measure_recipe(pool, recipe, device, &measure, profile, &m));
    if (terminal_draws())
        show_progress("measuring", 1, "");
    printf("%-20s %5d operators, %4d of them distinct; step %.1f ms, sum of its operators %.1f "
           "ms\n",
           recipe->name, m.nodes, m.calls, m.step_ms, m.nodes_ms);
    if (m.disturbed) {
        print_sentence(stdout,
                       "  disturbed: other programs used the processors in each of %d attempts, so "
                       "the times of %s are too long; measure again on a quiet machine",
                       MEASURE_TRIES, recipe->name);
        disturbed = pool_print(pool, "%s; %s was disturbed by other programs", disturbed,
                               recipe->name);
    }
    profile->ops_origin = pool_print(
        pool, "measured on %s with %s, %d threads: medians inside real steps, scaled to %s%s",
        device->model, device->library, device->threads,
        device->kind == DEVICE_CUDA ? "the median of a row of steps" : "the best step", disturbed);
    return OK;
}

/* The existing profile if it is of this machine, library and number of threads: its times stay. */
static Profile *probe_earlier(Pool *pool, const char *path, const Device *device)
{
    Profile *profile;
    if (!file_exists(path) || profile_read(pool, path, &profile))
        return NULL;
    bool same = !strcmp(profile->title, device->model) &&
                !strcmp(profile->library, device->library) && profile->threads == device->threads;
    return same ? profile : NULL;
}

/* A GPU's profile is named after its file: --device h200 finds profiles/h200.json. */
static const char *probe_name(Pool *pool, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return pool_textn(pool, base, strcspn(base, "."));
}

static Err probe_small_recipes(Pool *pool)
{
    char **names;
    int    n;
    TRY(shipped_list(pool, "recipes", ".yaml", &names, &n));
    for (int i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (length > 6 && !strcmp(names[i] + length - 6, "-small") && opt.recipes.n < 64)
            opt.recipes.items[opt.recipes.n++] = names[i];
    }
    return OK;
}

/* Checks every recipe and its options first, before minutes are spent. */
static Err probe_look(Pool *pool)
{
    for (int i = 0; i < opt.recipes.n; i++) {
        Recipe *recipe;
        Device *device;
        int64_t budget;
        TRY(model_open(pool, &model, opt.recipes.items[i], NULL, 0, &recipe, &device, &budget));
    }
    return OK;
}

/* Writes the profile after every measurement, so that nothing is lost if a later one fails. */
static Err probe_keep(Pool *pool, Profile *profile, const char *path)
{
    profile_ready(pool, profile);
    if (!opt.out) {
        char folder[FILE_PATH_MAX];
        file_folder(path, folder, sizeof folder);
        TRY(folder_make(folder));
    }
    return profile_write(profile, path);
}

static void wire_print_link(const char *name, const WireLink *link)
{
    if (link->bytes_per_ns > 0)
        printf("%-10s %.2f GB/s a machine, latency %.1f us, %.1f us a message\n", name,
               link->bytes_per_ns, link->latency_ns * 1e-3, link->message_ns * 1e-3);
}

static Err wire_keep(Pool *pool, const Wire *wire, const char *path)
{
    char folder[FILE_PATH_MAX];
    file_folder(path, folder, sizeof folder);
    if (!opt.out)
        TRY(folder_make(folder));
    TRY(wire_write(wire, path));
    wire_print_link("inside", &wire->inside);
    wire_print_link("between", &wire->between);
    printf("hidden     %.0f %% of a transfer overlaps with kernels\n", 100 * wire->hidden);
    printf("held       %s on each rank, outside the arena\n",
           bytes_text(wire->held_bytes + wire->inside.peer_bytes));
    printf("written to %s%s\n", path,
           opt.out ? pool_print(pool, "; use it with --wire %s", path)
                   : ", where explain, fit and train look for it");
    return OK;
}

/* All ranks measure, rank 0 writes. */
static Err probe_wire_of(Pool *pool, Comm *comm)
{
    Wire        wire = { 0 };
    const char *path = opt.out ? opt.out : wire_home(pool);
    if (!path)
        return fail(E_USAGE, "there is no home folder for the profile; name a file with -o FILE");
    wire.name = probe_name(pool, path);
    TRY(probe_wire(pool, comm, &wire));
    return comm_agree(comm, comm_rank(comm) ? OK : wire_keep(pool, &wire, path));
}

static Err probe_wires(Pool *pool)
{
    Comm *comm;
    if (opt.ops || opt.recipes.n || opt.take || model.device)
        return fail(E_USAGE,
                    "--wire measures only links; leave out --ops, --model, --take and --device");
    TRY(comm_open(pool, &comm));
    return comm_end(comm, probe_wire_of(pool, comm));
}

static Err cmd_probe_run(Pool *pool, int n_args, char **args)
{
    Device *device;
    (void)args;
    if (n_args)
        return fail(E_USAGE,
                    "probe takes no arguments; --model RECIPE times the operators of a recipe");
    if (opt.wire)
        return probe_wires(pool);
    if (model.device && strcmp(model.device, "cpu") && !probe_on_gpu())
        return fail(
            E_USAGE,
            "probe measures this machine: --device cpu (the default) or --device cuda, not %s",
            model.device);
    if (probe_on_gpu() && opt.take)
        return fail(
            E_USAGE,
            "--take limits the memory of the CPU; on a GPU, probe briefly takes all memory");
    const char *path = opt.out ? opt.out : profile_home(pool, probe_on_gpu() ? "cuda" : "cpu");
    if (!path)
        return fail(E_USAGE, "there is no home folder for the profile; name a file with -o FILE");
    if (opt.out)
        TRY(file_try(opt.out));
    if (opt.ops)
        TRY(probe_small_recipes(pool));
    TRY(probe_look(pool));
    TRY(probe_open(pool, false, &device));
    Profile *profile = probe_earlier(pool, path, device);
    bool     adds = profile && opt.recipes.n; /* only adds times to that profile */
    if (!profile)
        profile = NEW(pool, Profile);
    if (!adds) {
        TRY(probe_machine(pool, device, profile));
        if (probe_on_gpu())
            profile->name = probe_name(pool, path);
        TRY(probe_keep(pool, profile, path));
    }
    for (int i = 0; i < opt.recipes.n; i++) {
        TRY(probe_recipe(pool, opt.recipes.items[i], profile));
        TRY(probe_keep(pool, profile, path));
    }
    const char *how = opt.out ? pool_print(pool, "; use it with --device %s", path)
                              : ", where explain, fit and train look for it";
    printf("written to %s%s\n", path, how);
    next_command("explain RECIPE%s%s", opt.out ? " --device " : "",
                 opt.out ? text_word(pool, path) : "");
    return OK;
}

const Command cmd_probe = { "probe", "[--ops | --model R] [-o FILE]",
                            "measure this machine, so that predicted times are accurate", options,
                            cmd_probe_run };
