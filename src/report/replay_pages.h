/* replay_pages.h -- a replayed recording of PyTorch's allocator as text, JSON and HTML. */
#ifndef REPORT_REPLAY_PAGES_H
#define REPORT_REPLAY_PAGES_H

#include "base/file.h"
#include "torchmem/replay.h"

#include <stdio.h>

void replay_text(FILE *to, const ReplayAll *all); /* at most 100 columns, apart from long lines */
Err  replay_json(FILE *to, const ReplayAll *all); /* docs/user/FORMATS.md */
Err  replay_html(Pool *pool, const char *path, const char *recording, const ReplayAll *all);

const char *replay_name(const ReplayRun *run); /* its settings; "defaults" if there are none */
/* What the run reserves less than the recording's settings do; negative: more. */
int64_t     replay_saved(const ReplayAll *all, const ReplayRun *run);

#endif
