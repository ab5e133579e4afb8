/* csv.c -- layout.csv: one buffer per line.
 *
 *     id,lower,upper,size,align,offset        columns in any order; align and offset are optional
 *     conv1.out,0,12,65536,256,               no offset: free to be placed
 *     "weights, 1",0,99,4096,256,0            an offset: fixed there
 *
 * Cells may be quoted ("" inside quotes is one quote); lines end in LF or CRLF. Anything else is an
 * error that names line and column.
 */
#include "base/file.h"
#include "layout/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ID, LOWER, UPPER, SIZE, ALIGN, OFFSET, N_COLUMNS };

static const char *const csv_columns[N_COLUMNS] = { "id",   "lower", "upper",
                                                    "size", "align", "offset" };

typedef struct Csv {
    Pool       *pool;
    const char *at, *end;
    long        line; /* of `at`, from 1 */
} Csv;

typedef struct Row {
    char *cell[N_COLUMNS];
    int   n;
    long  line;
} Row;

static bool csv_at_break(const Csv *csv)
{
    return *csv->at == '\n' || (*csv->at == '\r' && csv->at + 1 < csv->end && csv->at[1] == '\n');
}

static Err csv_quoted(Csv *csv, char **cell)
{
    long        line = csv->line;
    const char *close = csv->at + 1;
    while (close < csv->end && (*close != '"' || (close + 1 < csv->end && close[1] == '"')))
        close += *close == '"' ? 2 : 1;
    if (close >= csv->end)
        return fail(E_FORMAT, "line %ld: a quoted cell is never closed", line);

    char *out = *cell = NEWN(csv->pool, char, close - csv->at);
    for (csv->at++; csv->at < close; csv->at++) {
        csv->at += *csv->at == '"'; /* the second of two quotes */
        csv->line += *csv->at == '\n';
        *out++ = *csv->at;
    }
    csv->at++;
    if (csv->at < csv->end && *csv->at != ',' && !csv_at_break(csv))
        return fail(E_FORMAT,
                    "line %ld: a quoted cell is followed by more text; write \"\" for a "
                    "quote inside quotes",
                    csv->line);
    return OK;
}

static Err csv_cell(Csv *csv, char **cell)
{
    if (csv->at < csv->end && *csv->at == '"')
        return csv_quoted(csv, cell);
    const char *start = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && !csv_at_break(csv)) {
        if (*csv->at == '"' || *csv->at == '\r')
            return fail(E_FORMAT, "line %ld: a %s in the middle of a cell; put the cell in quotes",
                        csv->line, *csv->at == '"' ? "quote" : "carriage return");
        csv->at++;
    }
    *cell = pool_textn(csv->pool, start, (size_t)(csv->at - start));
    return OK;
}

static Err csv_row(Csv *csv, Row *row)
{
    *row = (Row){ .line = csv->line };
    for (;;) {
        char *cell = NULL;
        TRY(csv_cell(csv, &cell));
        if (row->n == N_COLUMNS)
            return fail(E_FORMAT, "line %ld has more than %d cells", row->line, N_COLUMNS);
        row->cell[row->n++] = cell;
        if (csv->at == csv->end || *csv->at != ',')
            break;
        csv->at++;
    }
    if (csv->at < csv->end) {
        csv->at += *csv->at == '\r' ? 2 : 1;
        csv->line++;
    }
    return OK;
}

static Err csv_header(Csv *csv, int column_of[N_COLUMNS], int *n_cells)
{
    Row row;
    for (int c = 0; c < N_COLUMNS; c++)
        column_of[c] = -1;
    TRY(csv_row(csv, &row));
    for (int i = 0; i < row.n; i++) {
        int c = 0;
        while (c < N_COLUMNS && strcmp(row.cell[i], csv_columns[c]))
            c++;
        if (c == N_COLUMNS)
            return fail(E_FORMAT,
                        "line 1: '%.60s' is not a column; the columns are id, lower, "
                        "upper, size and, if wanted, align and offset",
                        row.cell[i]);
        if (column_of[c] >= 0)
            return fail(E_FORMAT, "line 1 names the column %s twice", csv_columns[c]);
        column_of[c] = i;
    }
    for (int c = ID; c <= SIZE; c++)
        if (column_of[c] < 0)
            return fail(E_FORMAT,
                        "line 1 lacks the column %s; it must name id, lower, upper and "
                        "size",
                        csv_columns[c]);
    *n_cells = row.n;
    return OK;
}

/* A whole number in decimal, with nothing before or after it, min <= value <= max. */
static Err csv_number(const Row *row, int cell, int column, int64_t min, int64_t max,
                      int64_t *value)
{
    const char *text = row->cell[cell], *digits = text + (*text == '-');
    char       *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*digits < '0' || *digits > '9' || *end)
        return fail(E_FORMAT, "line %ld, column %s: '%.60s' is not a whole number", row->line,
                    csv_columns[column], text);
    if (errno == ERANGE || number < min || number > max)
        return fail(E_FORMAT, "line %ld, column %s: %.60s is not between %lld and %lld", row->line,
                    csv_columns[column], text, (long long)min, (long long)max);
    *value = number;
    return OK;
}

static Err csv_buffer(const Row *row, const int column_of[N_COLUMNS], Buffer *b)
{
    const int64_t max = (int64_t)1 << 62;
    int           align = column_of[ALIGN], offset = column_of[OFFSET];
    *b = (Buffer){ .align = 1 };
    if (!*row->cell[column_of[ID]])
        return fail(E_FORMAT, "line %ld, column id: it is empty", row->line);
    TRY(csv_number(row, column_of[LOWER], LOWER, -max, max, &b->lower));
    TRY(csv_number(row, column_of[UPPER], UPPER, -max, max - 1, &b->upper));
    TRY(csv_number(row, column_of[SIZE], SIZE, 1, max, &b->size));
    if (b->lower >= b->upper)
        return fail(E_FORMAT, "line %ld, column upper: %lld is not above lower, %lld", row->line,
                    (long long)b->upper, (long long)b->lower);
    if (align >= 0 && *row->cell[align])
        TRY(csv_number(row, align, ALIGN, 1, max, &b->align));
    if (offset >= 0 && *row->cell[offset]) {
        TRY(csv_number(row, offset, OFFSET, 0, max, &b->offset));
        b->fixed = true;
    }
    return OK;
}

typedef struct Named {
    const char *id;
    long        line;
} Named;

static int csv_compare(const void *a, const void *b)
{
    const Named *x = a, *y = b;
    int          order = strcmp(x->id, y->id);
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static Err csv_unique(Named *named, int n)
{
    if (n > 1)
        qsort(named, (size_t)n, sizeof *named, csv_compare);
    for (int i = 1; i < n; i++)
        if (!strcmp(named[i - 1].id, named[i].id))
            return fail(E_FORMAT, "lines %ld and %ld, column id: both are called '%.60s'",
                        named[i - 1].line, named[i].line, named[i].id);
    return OK;
}

Err layout_parse(Pool *pool, const char *text, size_t n, LayoutFile *file)
{
    static const char mark[] = "\xef\xbb\xbf"; /* the byte order mark of some
                                                          * spreadsheets */
    if (n >= 3 && !memcmp(text, mark, 3)) {
        text += 3;
        n -= 3;
    }
    Csv     csv = { .pool = pool, .at = text, .end = text + n, .line = 1 };
    int     column_of[N_COLUMNS], n_cells = 0;
    int32_t n_ids = 0, n_named = 0, cap_ids = 0, cap_buffers = 0, cap_named = 0;
    Named  *named = NULL;

    *file = (LayoutFile){ 0 };
    if (n == 0)
        return fail(E_FORMAT, "the file is empty; its first line must be id,lower,upper,size");
    for (const char *at = text; at < csv.end; at++) {
        csv.line += *at == '\n';
        if (!*at)
            return fail(E_FORMAT, "line %ld holds a zero byte: this is not a text file", csv.line);
    }
    csv.line = 1;
    TRY(csv_header(&csv, column_of, &n_cells));
    while (csv.at < csv.end) {
        Row row;
        if (csv_at_break(&csv)) { /* empty lines may only end the file */
            long line = csv.line;
            while (csv.at < csv.end && (*csv.at == '\n' || *csv.at == '\r'))
                csv.at++;
            if (csv.at < csv.end)
                return fail(E_FORMAT, "line %ld is empty", line);
            break;
        }
        TRY(csv_row(&csv, &row));
        if (row.n != n_cells)
            return fail(E_FORMAT, "line %ld has %d cells, the first line has %d", row.line, row.n,
                        n_cells);
        if (file->n == INT32_MAX / 2)
            return fail(E_FORMAT, "line %ld: more than %d buffers", row.line, file->n);
        Buffer buffer;
        TRY(csv_buffer(&row, column_of, &buffer));
        const char *id = row.cell[column_of[ID]];
        VEC_ADD(pool, file->buffers, file->n, cap_buffers, buffer);
        VEC_ADD(pool, file->ids, n_ids, cap_ids, id);
        VEC_ADD(pool, named, n_named, cap_named, (Named){ id, row.line });
    }
    return csv_unique(named, n_named);
}

Err layout_read(Pool *pool, const char *path, LayoutFile *file)
{
    char  *text;
    size_t n;
    TRY(file_read(pool, path, &text, &n));
    Err err = layout_parse(pool, text, n, file);
    return err ? fail(err, "%s: %s", path, err_text()) : OK;
}

static void csv_write_id(FileOut *out, const char *id)
{
    if (!strpbrk(id, ",\"\r\n") && strncmp(id, "\xef\xbb\xbf", 3)) {
        file_out_print(out, "%s", id);
        return;
    }
    file_out_add(out, "\"", 1);
    for (; *id; id++)
        file_out_print(out, *id == '"' ? "\"%c" : "%c", *id);
    file_out_add(out, "\"", 1);
}

Err layout_write(const char *path, const LayoutFile *file)
{
    FileOut out;
    bool    aligned = false;
    TRY(file_out_init(&out, path));
    for (int i = 0; i < file->n; i++)
        aligned |= file->buffers[i].align > 1;
    file_out_print(&out, "id,lower,upper,size%s,offset\n", aligned ? ",align" : "");
    for (int i = 0; i < file->n; i++) {
        const Buffer *b = &file->buffers[i];
        csv_write_id(&out, file->ids[i]);
        file_out_print(&out, ",%lld,%lld,%lld", (long long)b->lower, (long long)b->upper,
                       (long long)b->size);
        if (aligned)
            file_out_print(&out, ",%lld", (long long)(b->align ? b->align : 1));
        file_out_print(&out, ",%lld\n", (long long)b->offset);
    }
    return file_out_done(&out, OK);
}
