/* fit_pages.h -- what `fit` found, as a page. */
#ifndef REPORT_FIT_PAGES_H
#define REPORT_FIT_PAGES_H

#include "fit/fit.h"

/* points: of fit_curve; n_points 0: no curve. budget_bytes: as asked for, on a GPU with the
 * runtime. */
Err fit_html(Pool *pool, const char *path, const FitResult *fit, int64_t budget_bytes,
             const FitPoint *points, int n_points);

#endif
