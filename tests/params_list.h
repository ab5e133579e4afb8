/* params_list.h -- compares a model's parameters with a published list of names and shapes.
 *
 * tests/models/params/LIST.txt has one line "name<TAB>[a, b]" per parameter. Every one must be in
 * the graph with that shape, and the graph must have no others. LIST is the name of a recipe. The
 * text tower of StableSR is not part of the system and not in its list. */
#ifndef TESTS_PARAMS_LIST_H
#define TESTS_PARAMS_LIST_H

#include "test.h"

#include "ir/graph.h"

#include <stdlib.h>

static inline void params_compare(Graph *graph, const char *list)
{
    char        path[1024], line[1024];
    const char *name = test_name;
    int         n = 0;
    snprintf(path, sizeof path, SOURCE_DIR "/tests/models/params/%s.txt", list);
    FILE *file = fopen(path, "r");
    if (!CHECK(file != NULL))
        return;
    while (fgets(line, sizeof line, file)) {
        char *shape = strchr(line, '\t');
        if (!CHECK(shape != NULL))
            continue;
        *shape++ = '\0';
        Param *p = param_find(graph, line);
        Shape  want = { 0 };
        for (char *at = shape; *at && *at != ']';) {
            if (*at >= '0' && *at <= '9' && want.rank < MAX_RANK)
                want.dim[want.rank++] = strtoll(at, &at, 10);
            else
                at++;
        }
        test_name = line; /* so that a failure names the parameter */
        CHECK_TEXT(p ? shape_text(p->disk) : "(nothing)", shape_text(want));
        n++;
    }
    fclose(file);
    test_name = name;
    CHECK(n > 0);
    CHECK_INT(graph->n_params, n);
}

#endif
