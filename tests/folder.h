/* folder.h -- clears a folder, for tests that write runs. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include "test.h"

#include "base/file.h"

/* Removes all files below a folder; the folders stay. */
static void folder_clear(Pool *pool, const char *folder)
{
    char **names;
    int    n = 0;
    if (!folder_exists(folder))
        return;
    CHECK_OK(folder_list(pool, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *path = pool_print(pool, "%s/%s", folder, names[i]);
        if (folder_exists(path))
            folder_clear(pool, path);
        else
            CHECK_OK(file_remove(path));
    }
}

#endif
