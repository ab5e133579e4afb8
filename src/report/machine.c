/* machine.c -- device, runtime and time in words. */
#include "report/machine.h"

#include "base/text.h"
#include "profile/devices.h"
#include "profile/profile.h"

#include <math.h>
#include <string.h>

const char *planned_only_text(Pool *pool, const Device *device)
{
    if (!device_planned_only(device))
        return NULL;
    return pool_print(pool,
                      "planned only: compute capability %.1f, and training needs %.1f or newer",
                      device->profile->capability, MIN_CAPABILITY);
}

const char *device_text(Pool *pool, const Device *device)
{
    if (device_planned_only(device))
        return pool_print(pool, "%s (%s; %s)", device->name, device->model,
                          planned_only_text(pool, device));
    if (!device_has_kernels(device))
        return pool_print(pool, "%s (%s, described by its profile: %s)", device->name,
                          device->model,
                          device->profile_note ? device->profile_note : "no workspaces counted");
    if (device->kind == DEVICE_CUDA)
        return pool_print(pool, "%s (%s, %s)", device->name, device->model, device->library);
    return pool_print(pool, "%s (%s%s%s, %d thread%s)", device->name,
                      device->described ? device->model : "", device->described ? ", " : "",
                      device->library, device->threads, device->threads == 1 ? "" : "s");
}

const char *md_name(Pool *pool, const char *name)
{
    Text text = { .pool = pool };
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ')
            text_add(&text, " ");
        else
            text_add(&text, strchr("\\`*_[]<>|#&~!$", *p) ? "\\%c" : "%c", *p);
    return text.n ? text.at : "";
}

const char *runtime_text(Pool *pool, const Device *device, int64_t runtime_bytes)
{
    if (device->kind == DEVICE_CPU && !device->described)
        return pool_print(
            pool,
            "outside the arena: %s bytes (%s) of code, generated kernels and this plan, measured "
            "in this process",
            count_text(runtime_bytes), bytes_text(runtime_bytes));
    const char *what = device->kind == DEVICE_CPU
                           ? ""
                           : " of context, libraries and the step's CUDA graphs, which "
                             "count against a budget";
    return pool_print(pool, "outside the arena: %s bytes (%s)%s, %s%s", count_text(runtime_bytes),
                      bytes_text(runtime_bytes), what,
                      device->described ? "by the profile "
                                        : "measured when the device was opened, "
                                          "and by the step's launches",
                      device->described ? device->profile->name : "");
}

const char *time_text(Pool *pool, const Engine *engine)
{
    /* a measured time is above its floor: one device's floor says nothing of another's profile */
    static const char *const one_device = "it compares plans for this device, not devices";
    const char              *note = engine->device->profile_note;
    double                   measured = engine_time_share(engine, TIME_MEASURED),
           family = engine_time_share(engine, TIME_FAMILY);
    if (!engine->device->profile)
        return note ? pool_print(pool, "roofline, not measured (%s)", note)
                    : "roofline, not measured (plimsoll probe measures this machine)";
    if (engine->device->profile->pace > 0)
        return pool_print(pool, "%s by a few kernels%s (plimsoll probe measures more)",
                          engine_time_source(engine), note ? pool_print(pool, "; %s", note) : "");
    if (measured + family <= 0)
        return pool_print(pool, "%s, a floor and not a measurement: %s", engine_time_source(engine),
                          one_device);
    return pool_print(pool, "%s: %.0f %% measured, %.0f %% from other sizes, %.0f %% roofline%s%s",
                      engine_time_source(engine), 100 * measured, 100 * family,
                      100 * fabs(1 - measured - family), measured + family < 0.5 ? ": " : "",
                      measured + family < 0.5 ? one_device : "");
}

void changes_print(FILE *to, const FitResult *r)
{
    for (int i = 0; i < r->n_changes; i++) {
        const FitChange *change = &r->changes[i];
        int n = fprintf(to, "  %-18s %s -> %s", change->what, change->from, change->to);
        fprintf(to, "%s%*s%s\n", n < 79 ? "" : "\n", n < 79 ? 80 - n : 80, "",
                change->exact ? "changes no number" : "rounding may change");
    }
}

double more_percent(double slowdown)
{
    double percent = 100 * (slowdown - 1);
    return fabs(percent) < 0.05 ? 0 : percent;
}

const char *step_text(Pool *pool, double ns)
{
    return ns < 1e9      ? pool_print(pool, "%.1f ms", ns * 1e-6)
           : ns < 120e9  ? pool_print(pool, "%.1f s", ns * 1e-9)
           : ns < 7200e9 ? pool_print(pool, "%.1f min", ns / 60e9)
                         : pool_print(pool, "%.1f h", ns / 3600e9);
}

void time_json(JsonOut *o, const Engine *engine, double step_ms, double slowdown)
{
    json_out_object_row(o, "time");
    json_out_number(o, "step_ms", step_ms * engine_pace(engine));
    json_out_number(o, "slowdown", slowdown);
    json_out_string(o, "source", engine_time_source(engine));
    json_out_number(o, "measured", engine_time_share(engine, TIME_MEASURED));
    json_out_number(o, "interpolated", engine_time_share(engine, TIME_FAMILY));
    json_out_end(o);
}
