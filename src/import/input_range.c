/* input_range.c -- which numbers an integer input may hold, by what the program does with it.
 *
 * Rows of a table that it indexes and classes of a loss are upper bounds; the smallest one holds.
 * The input is followed through views, casts between integers and sums with a number. */
#include "import/known_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BELOW_ANY = 1000, FOLLOWED = 64 };

typedef struct Following {
    const Exported *program;
    struct {
        int32_t value;
        int64_t plus; /* what the program has added to the input */
    } list[FOLLOWED];
    int     n;
    int64_t below; /* 0: no bound found yet */
} Following;

static void follow(Following *f, int32_t value, int64_t plus)
{
    for (int i = 0; i < f->n; i++)
        if (f->list[i].value == value)
            return;
    if (value >= 0 && f->n < FOLLOWED) {
        f->list[f->n].value = value;
        f->list[f->n++].plus = plus;
    }
}

static void bound(Following *f, int64_t rows, int64_t plus)
{
    int64_t below = rows - plus > 1 ? rows - plus : 1;
    if (rows > 0 && (!f->below || below < f->below))
        f->below = below;
}

static bool called(const ExportedCall *call, const char *name) /* any overload of aten.NAME */
{
    size_t n = strlen(name);
    return !strncmp(call->target, "aten.", 5) && !strncmp(call->target + 5, name, n) &&
           (!call->target[5 + n] || call->target[5 + n] == '.');
}

static bool called_any(const ExportedCall *call, const char *const *names)
{
    for (; *names; names++)
        if (called(call, *names))
            return true;
    return false;
}

static bool reads(const ExportedArg *a, int32_t value)
{
    for (int32_t i = 0; a && (a->kind == ARG_VALUE || a->kind == ARG_VALUES) && i < a->n; i++)
        if (a->values[i] == value)
            return true;
    return false;
}

/* Extent of an axis of the argument that holds a table; 0: not known. */
static int64_t extent(const Following *f, const ExportedCall *call, const char *name, int64_t axis)
{
    const ExportedArg *a = call_arg(call, name);
    int64_t            n = 0;
    if (!a || a->kind != ARG_VALUE)
        return 0;
    const ExportedValue *v = &f->program->values[a->values[0]];
    axis = axis < 0 ? axis + v->rank : axis;
    if (axis < 0 || axis >= v->rank || sym_eval(&f->program->symbols, v->size[axis], &n))
        return 0;
    return n;
}

static int64_t plain(const ExportedCall *call, const char *name, int64_t otherwise)
{
    const ExportedArg *a = call_arg(call, name);
    return a && a->kind == ARG_INT ? a->ints[0].value : otherwise;
}

static void look_index(Following *f, const ExportedCall *call, int32_t value, int64_t plus)
{
    const ExportedArg *a = call_arg(call, "indices");
    for (int32_t i = 0; a && a->kind == ARG_VALUES && i < a->n; i++)
        if (a->values[i] == value)
            bound(f, extent(f, call, "self", i), plus);
}

static void look_loss(Following *f, const ExportedCall *call, int32_t value, int64_t plus)
{
    const ExportedArg *x = call_arg(call, "self");
    if (x && x->kind == ARG_VALUE && reads(call_arg(call, "target"), value))
        bound(f, extent(f, call, "self", f->program->values[x->values[0]].rank > 1), plus);
}

static void look(Following *f, const ExportedCall *call, int32_t value, int64_t plus)
{
    static const char *const same[] = { "view",
                                        "reshape",
                                        "unsqueeze",
                                        "squeeze",
                                        "expand",
                                        "permute",
                                        "transpose",
                                        "slice",
                                        "select",
                                        "to",
                                        "_to_copy",
                                        "clone",
                                        "detach",
                                        "alias",
                                        "flatten",
                                        "contiguous",
                                        "repeat",
                                        "expand_as",
                                        "t",
                                        "long",
                                        "int",
                                        "type_as",
                                        "where",
                                        "stack",
                                        "cat",
                                        "chunk",
                                        "split",
                                        "unbind",
                                        "masked_fill",
                                        "flip",
                                        "roll",
                                        "lift_fresh_copy",
                                        "_unsafe_view",
                                        "unflatten",
                                        "repeat_interleave",
                                        "tile",
                                        "view_as",
                                        "reshape_as",
                                        "broadcast_to",
                                        "movedim",
                                        "clamp",
                                        "clamp_min",
                                        "pad",
                                        "constant_pad_nd",
                                        NULL };
    static const char *const axis[] = { "gather",      "index_select",   "scatter",
                                        "scatter_add", "scatter_reduce", NULL };
    if ((called(call, "embedding") || called(call, "embedding_bag")) &&
        reads(call_arg(call, "indices"), value))
        bound(f, extent(f, call, "weight", 0), plus);
    else if (called(call, "cross_entropy_loss") || called(call, "nll_loss") ||
             called(call, "nll_loss_forward") || called(call, "nll_loss_nd"))
        look_loss(f, call, value, plus);
    else if (called(call, "index") || called(call, "index_put"))
        look_index(f, call, value, plus);
    else if (called_any(call, axis) && reads(call_arg(call, "index"), value))
        bound(f, extent(f, call, "self", plain(call, "dim", 0)), plus);
    else if (called(call, "take_along_dim") && reads(call_arg(call, "indices"), value))
        bound(f, extent(f, call, "self", plain(call, "dim", 0)), plus);
    else if (called(call, "one_hot"))
        bound(f, plain(call, "num_classes", 0), plus);
    else if (called(call, "add") || called(call, "sub")) {
        int64_t more = plain(call, "other", 0);
        if (call->n_out && reads(call_arg(call, "self"), value))
            follow(f, call->out[0], plus + (called(call, "add") ? more : -more));
    } else if (called_any(call, same)) {
        for (int32_t i = 0; i < call->n_out; i++)
            if (call->out[i] >= 0 && !type_floats(f->program->values[call->out[i]].type))
                follow(f, call->out[i], plus);
    }
}

/* Classes of the loss that the recipe asks for, if this input is its target. */
static void look_asked(Following *f, const ImportConfig *config, int32_t value)
{
    const Exported *p = f->program;
    const char     *target = config->loss.target ? config->loss.target : "target";
    int             k = 0;
    for (int32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].value == value && strcmp(p->inputs[i].name, target) != 0)
            return;
    for (int32_t i = 0; i < p->n_outputs; i++) {
        if (p->outputs[i].arg.kind != ARG_VALUE)
            continue;
        const ExportedValue *v = &p->values[p->outputs[i].arg.values[0]];
        const char          *name = config->loss.output;
        char                 number[16];
        int64_t              n;
        snprintf(number, sizeof number, "%d", k++);
        bool asked = name ? !strcmp(name, v->name) || !strcmp(name, number) : type_floats(v->type);
        if (asked && v->rank > 1 && !sym_eval(&p->symbols, v->size[1], &n))
            bound(f, n, 0);
        if (asked)
            return;
    }
}

int32_t input_below(Lower *l, int32_t value)
{
    const Exported *program = l->program;
    ExportedType    type = program->values[value].type;
    if (type_floats(type))
        return 0;
    Following f = { .program = program };
    follow(&f, value, 0);
    for (int at = 0; at < f.n; at++) {
        bound(&f, known_dml_levels(l, f.list[at].value), f.list[at].plus);
        for (int32_t i = 0; i < program->n_calls; i++) {
            const ExportedCall *call = &program->calls[i];
            for (int32_t k = 0; k < call->n_args; k++)
                if (reads(&call->args[k], f.list[at].value)) {
                    look(&f, call, f.list[at].value, f.list[at].plus);
                    break;
                }
        }
    }
    if (l->config->loss.kind == IMPORT_CROSS_ENTROPY)
        look_asked(&f, l->config, value);
    if (type == EX_BOOL || (type == EX_U8 && !f.below))
        return 2;
    return !f.below ? BELOW_ANY : f.below < INT32_MAX ? (int32_t)f.below : INT32_MAX;
}
