/* exported_source.c -- where a call comes from: the user's line and the path of the module. */
#include "import/exported_int.h"

#include <stdlib.h>
#include <string.h>

/* Is this a file of PyTorch itself? Its own passes name it without a folder before it. */
static bool source_is_torch(const char *path)
{
    static const char *const parts[] = {
        "-packages/torch/", "/torch/nn/modules/", "/torch/nn/functional.py",
        "/torch/fx/",       "/torch/_",           "/torch/export/"
    };
    if (!strncmp(path, "torch/", 6))
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(path, parts[i]))
            return true;
    return *path == '<'; /* generated code */
}

typedef struct Frame {
    const char *path, *text;
    size_t      n_path, n_text;
    int         line;
} Frame;

/* File "PATH", line N, in NAME. False: this line is something else. */
static bool frame_read(const char *line, size_t n, Frame *frame)
{
    const char *end = line + n;
    while (line < end && (*line == ' ' || *line == '\t'))
        line++;
    if (end - line < 8 || memcmp(line, "File \"", 6) != 0)
        return false;
    const char *path = line + 6, *close = memchr(path, '"', (size_t)(end - path));
    if (!close || end - close < 8 || memcmp(close, "\", line ", 8) != 0)
        return false;
    *frame = (Frame){ .path = path, .n_path = (size_t)(close - path) };
    for (const char *p = close + 8; p < end && *p >= '0' && *p <= '9' && frame->line < 100000000;
         p++)
        frame->line = frame->line * 10 + (*p - '0');
    return true;
}

/* Innermost frames come last. */
static void source_line(ExportedIn *in, const char *trace, ExportedCall *call)
{
    Frame best = { 0 }, frame;
    bool  ours = false;
    for (const char *line = trace; *line;) {
        size_t n = strcspn(line, "\n");
        if (frame_read(line, n, &frame)) {
            ours = !source_is_torch(exported_textn(in, frame.path, frame.n_path));
            if (ours)
                best = frame;
        } else if (ours && !best.text) {
            size_t skip = strspn(line, " \t");
            best.text = line + (skip < n ? skip : n);
            best.n_text = n - (skip < n ? skip : n);
        }
        line += n + (line[n] == '\n');
    }
    if (!best.path)
        return;
    call->path = exported_textn(in, best.path, best.n_path);
    const char *slash = strrchr(call->path, '/'), *back = strrchr(call->path, '\\');
    if (back && (!slash || back > slash))
        slash = back;
    call->file = slash && slash[1] ? slash + 1 : call->path;
    call->line = best.line;
    if (best.n_text)
        call->text = exported_textn(in, best.text, best.n_text);
}

/* The next c outside brackets and quotes, or the end. */
static const char *source_find(const char *p, const char *end, char c)
{
    int depth = 0;
    for (; p < end; p++) {
        if (*p == '(' || *p == '[')
            depth++;
        else if ((*p == ')' || *p == ']') && depth)
            depth--;
        else if (*p == c && !depth)
            return p;
    }
    return end;
}

/* "key,path,type;key,path,type": the path of the last entry. */
static const char *source_module(ExportedIn *in, const char *stack)
{
    const char *end = stack + strlen(stack), *last = stack;
    for (const char *p = stack; p < end;) {
        const char *stop = source_find(p, end, ';');
        last = p;
        p = stop + (stop < end);
    }
    const char *key_end = source_find(last, end, ',');
    if (key_end == end || !strncmp(last, "_empty_nn_module_stack", 22))
        return "";
    const char *path = key_end + 1, *path_end = source_find(path, end, ',');
    /* strict exports of some versions write the root as L['self'] */
    if (path_end - path >= 9 && !memcmp(path, "L['self']", 9))
        path += 9 + (path[9] == '.');
    return path < path_end ? exported_textn(in, path, (size_t)(path_end - path)) : "";
}

void exported_source(ExportedIn *in, const Json *metadata, ExportedCall *call)
{
    const Json *trace = json_get(metadata, "stack_trace"),
               *stack = json_get(metadata, "nn_module_stack");
    call->module = "";
    if (trace && trace->kind == JSON_TEXT)
        source_line(in, trace->text, call);
    if (stack && stack->kind == JSON_TEXT)
        call->module = source_module(in, stack->text);
}
