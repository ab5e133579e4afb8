/* params_list.h -- a model's parameters against a published list of names and shapes.
 *
 * Lines "name<TAB>[a, b]<TAB>count" of ../shared/facts/params/LIST, those that begin with
 * `left_out` (or NULL) excepted: every one must be in the graph with that shape, and nothing else.
 * Says so where the list is absent. */
#ifndef TESTS_PARAMS_LIST_H
#define TESTS_PARAMS_LIST_H

#include "test.h"

#include "ir/graph.h"

#include <stdlib.h>

static inline void params_compare(Graph *graph, const char *list, const char *left_out)
{
    char        path[1024], line[1024];
    const char *name = test_name;
    int         n = 0;
    snprintf(path, sizeof path, SOURCE_DIR "/../shared/facts/params/%s", list);
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("%s is not here: names are not compared\n", list);
        return;
    }
    while (fgets(line, sizeof line, file)) {
        char *shape = strchr(line, '\t');
        if (line[0] == '#' || !shape || (left_out && !strncmp(line, left_out, strlen(left_out))))
            continue;
        *shape++ = '\0';
        Param *p = param_find(graph, line);
        Shape  want = { 0 };
        for (char *at = shape; *at && *at != ']'; ) {
            if (*at >= '0' && *at <= '9' && want.rank < MAX_RANK)
                want.dim[want.rank++] = strtoll(at, &at, 10);
            else
                at++;
        }
        test_name = line;        /* so that a failure names the parameter */
        CHECK_TEXT(p ? shape_text(p->disk) : "(nothing)", shape_text(want));
        n++;
    }
    fclose(file);
    test_name = name;
    CHECK_INT(graph->n_params, n);
}

#endif
