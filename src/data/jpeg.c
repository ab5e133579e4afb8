/* jpeg.c -- reading JPEG (ITU T.81): its markers and tables, from the first to the end mark. */
#include "data/jpeg_int.h"

#include <string.h>

enum {                               /* markers, after their FF */
    TEM = 0x01, SOF0 = 0xC0, SOF2 = 0xC2, DHT = 0xC4, DAC = 0xCC, SOF15 = 0xCF, RST0 = 0xD0,
    RST7 = 0xD7, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, DQT = 0xDB, DNL = 0xDC, DRI = 0xDD,
    DHP = 0xDE, EXP = 0xDF, APP0 = 0xE0, APP14 = 0xEE
};
enum { SMALL = 64 * 1024, UNIT_MAX = 10 };  /* bytes; blocks of an interleaved unit */

typedef struct Segment { const unsigned char *at; size_t n; } Segment;

Err jpeg_damaged(const Jpeg *j, const char *how)
{
    return fail(E_FORMAT, "%s is a damaged JPEG: %s; take it out, or save it anew", j->name, how);
}

static Err jpeg_truncated(const Jpeg *j)
{
    return fail(E_FORMAT, "%s is a truncated JPEG: it ends after %zu bytes, without its end mark",
                j->name, j->n);
}

static Err jpeg_other(const Jpeg *j, const char *what)
{
    return fail(E_FORMAT, "%s is a JPEG with %s, which is not read: convert it to PNG, or to a "
                "plain JPEG of 8 bits in grey or RGB", j->name, what);
}

static int big16(const unsigned char *p) { return p[0] << 8 | p[1]; }

/* ---- tables ---- */

static Err quant_tables(Jpeg *j, Segment s)
{
    while (s.n) {
        int    wide = s.at[0] >> 4, to = s.at[0] & 15;
        size_t n = wide ? 129 : 65;
        if (wide > 1 || to >= JPEG_TABLES || s.n < n)
            return jpeg_damaged(j, "its quantisers are malformed");
        for (int k = 0; k < 64; k++) {
            int x = wide ? big16(s.at + 1 + 2 * k) : s.at[1 + k];
            if (!x)
                return jpeg_damaged(j, "a quantiser is 0");
            j->quant[to][jpeg_zigzag[k]] = (uint16_t)x;
        }
        j->quant_there[to] = true;
        s.at += n;
        s.n -= n;
    }
    return OK;
}

/* Codes of each length follow those of the one before (T.81 annex C). */
static bool huffman_build(Huffman *h, const unsigned char counts[16])
{
    uint32_t code = 0;
    int      at = 0;
    memset(h->fast, 0, sizeof h->fast);
    for (int length = 1; length <= 16; length++, code <<= 1) {
        h->skip[length] = at - (int32_t)code;
        for (int i = 0; i < counts[length - 1]; i++, code++, at++) {
            if (code >= 1u << length)
                return false;
            if (length > HUFFMAN_FAST)
                continue;
            int free = HUFFMAN_FAST - length;
            for (uint32_t k = code << free; k < (code + 1) << free; k++)
                h->fast[k] = (uint16_t)(length << 8 | h->symbols[at]);
        }
        h->end[length] = code << (16 - length);
    }
    return h->there = true;
}

static Err huffman_tables(Jpeg *j, Segment s)
{
    while (s.n) {
        size_t n = 0;
        int    ac = s.at[0] >> 4, to = s.at[0] & 15;
        for (int i = 1; i <= 16 && s.n >= 17; i++)
            n += s.at[i];
        if (ac > 1 || to >= JPEG_TABLES || s.n < 17 + n || n > 256)
            return jpeg_damaged(j, "its Huffman tables are malformed");
        Huffman *h = ac ? &j->ac[to] : &j->dc[to];
        memset(h->symbols, 0, sizeof h->symbols);
        memcpy(h->symbols, s.at + 17, n);
        for (size_t i = 0; i < n && !ac; i++)
            if (h->symbols[i] > 15)          /* bits of a difference */
                return jpeg_damaged(j, "its Huffman tables are malformed");
        if (!huffman_build(h, s.at + 1))
            return jpeg_damaged(j, "a Huffman table has more codes than there can be");
        s.at += 17 + n;
        s.n -= 17 + n;
    }
    return OK;
}

/* ---- the frame ---- */

static int64_t up(int64_t x, int64_t by) { return (x + by - 1) / by; }

static Err frame_parts(Jpeg *j, const unsigned char *at)
{
    for (int i = 0; i < j->n_parts; i++, at += 3) {
        JpegPart *p = &j->parts[i];
        *p = (JpegPart){ .id = at[0], .h = at[1] >> 4, .v = at[1] & 15, .quant_at = at[2] };
        memset(p->known, -1, sizeof p->known);
        if (p->h < 1 || p->h > 4 || p->v < 1 || p->v > 4 || p->quant_at >= JPEG_TABLES)
            return jpeg_damaged(j, "its frame header is malformed");
        if (j->n_parts == 1)                 /* then they say nothing */
            p->h = p->v = 1;
        j->h_max = p->h > j->h_max ? p->h : j->h_max;
        j->v_max = p->v > j->v_max ? p->v : j->v_max;
    }
    j->units_across = up(j->width, 8 * j->h_max);
    j->units_down = up(j->height, 8 * j->v_max);
    for (int i = 0; i < j->n_parts; i++) {
        JpegPart *p = &j->parts[i];
        if (j->h_max % p->h || j->v_max % p->v)
            return jpeg_other(j, "colours at sizes that do not divide each other");
        p->width = up(j->width * p->h, j->h_max);
        p->height = up(j->height * p->v, j->v_max);
        p->across = up(p->width, 8);
        p->down = up(p->height, 8);
        p->stride = j->units_across * p->h;
        p->rows = j->units_down * p->v;
    }
    return OK;
}

static Err frame_header(Jpeg *j, int marker, Segment s)
{
    static const char *const kinds[16] = {
        NULL, NULL, NULL, "lossless coding", NULL, "hierarchical coding", "hierarchical coding",
        "hierarchical coding", "an extension", "arithmetic coding", "arithmetic coding",
        "arithmetic coding", NULL, "arithmetic coding", "arithmetic coding", "arithmetic coding"
    };
    if (kinds[marker & 15])
        return jpeg_other(j, kinds[marker & 15]);
    if (j->n_parts || s.n < 6 || s.n != 6 + 3 * (size_t)s.at[5])
        return jpeg_damaged(j, j->n_parts ? "it has two frames" : "its frame header is malformed");
    int n = s.at[5];
    if (s.at[0] != 8)
        return jpeg_other(j, s.at[0] == 12 ? "12 bits a sample" : "no 8 bits a sample");
    if (n != 1 && n != 3)
        return jpeg_other(j, n == 4 ? "four colours (CMYK)" : "neither one colour nor three");
    j->height = big16(s.at + 1);
    j->width = big16(s.at + 3);
    if (!j->height)
        return jpeg_other(j, "its height after the image (DNL)");
    TRY(raster_size(j->name, j->width, j->height));
    j->progressive = marker == SOF2;
    j->n_parts = n;
    return frame_parts(j, s.at + 6);
}

/* ---- segments ---- */

static void application(Jpeg *j, int marker, Segment s)
{
    if (marker == APP0 && s.n >= 14 && !memcmp(s.at, "JFIF", 5))
        j->jfif = true;
    if (marker == APP14 && s.n >= 12 && !memcmp(s.at, "Adobe", 5))
        j->adobe = s.at[11];
}

static Err segment_take(Jpeg *j, int marker, Segment s)
{
    if (marker == DHT)
        return huffman_tables(j, s);
    if (marker == DQT)
        return quant_tables(j, s);
    if (marker == DRI) {
        if (s.n != 2)
            return jpeg_damaged(j, "its restart interval is malformed");
        j->restart = big16(s.at);
    } else if (marker == DNL)
        return jpeg_other(j, "its height after the image (DNL)");
    else if (marker == DHP || marker == EXP)
        return jpeg_other(j, "hierarchical coding");
    else if (marker == DAC)
        return jpeg_other(j, "arithmetic coding");
    else if (marker >= SOF0 && marker <= SOF15)
        return frame_header(j, marker, s);
    else
        application(j, marker, s);
    return OK;
}

/* Takes in all segments up to the next scan, whose header is *s, or to the end: *s is empty. */
static Err segments(Jpeg *j, Segment *s)
{
    for (;;) {
        if (j->n - j->at < 2)
            return jpeg_truncated(j);
        if (j->bytes[j->at] != 0xFF)
            return jpeg_damaged(j, "between its parts lie bytes that belong to none");
        int marker = j->bytes[++j->at];
        if (marker == 0xFF)                  /* any number may stand before a marker */
            continue;
        j->at++;
        *s = (Segment){ 0 };
        if (marker == EOI)
            return j->n_parts ? OK : jpeg_damaged(j, "it has no image");
        if (marker == TEM || (marker >= RST0 && marker <= RST7))
            continue;                        /* says nothing here; some write it after a scan */
        if (marker < SOF0 || marker == SOI)
            return jpeg_damaged(j, "between its parts lies a mark that belongs elsewhere");
        size_t length = j->n - j->at < 2 ? 0 : (size_t)big16(j->bytes + j->at);
        if (length > j->n - j->at || j->n - j->at < 2)
            return jpeg_truncated(j);
        if (length < 2)
            return jpeg_damaged(j, "a part is shorter than its own length");
        *s = (Segment){ j->bytes + j->at + 2, length - 2 };
        j->at += length;
        if (marker == SOS)
            return j->n_parts ? OK : jpeg_damaged(j, "it has no frame header");
        TRY(segment_take(j, marker, *s));
    }
}

static Err jpeg_begin(Jpeg *j, const char *name, const unsigned char *bytes, size_t n, Segment *s)
{
    *j = (Jpeg){ .name = name, .bytes = bytes, .n = n, .at = 2, .adobe = -1 };
    if (n < 2)
        return jpeg_truncated(j);
    if (bytes[0] != JPEG_FIRST || bytes[1] != SOI)
        return fail(E_FORMAT, "%s is no JPEG: it does not begin with JPEG's mark", name);
    TRY(segments(j, s));
    return s->n ? OK : jpeg_damaged(j, "it has no image");
}

/* ---- looking ---- */

/* The end mark, sought from the first scan on. A large file that ends with it is believed at
 * once; bytes of others may follow it. */
static Err jpeg_end(const Jpeg *j)
{
    const unsigned char *at = j->bytes + j->at, *end = j->bytes + j->n;
    if (j->n > SMALL && end[-2] == 0xFF && end[-1] == EOI)
        return OK;
    while ((at = memchr(at, 0xFF, (size_t)(end - at))) && end - at >= 2) {
        int marker = at[1];
        if (marker == EOI)
            return OK;
        at += marker == 0xFF ? 1 : 2;
        if (marker < SOF0 || marker == 0xFF || (marker >= RST0 && marker <= SOI))
            continue;
        if (end - at < 2 || end - at < big16(at))
            break;
        at += big16(at);
    }
    return jpeg_truncated(j);
}

static void jpeg_info(const Jpeg *j, ImageInfo *info)
{
    *info = (ImageInfo){ .width = j->width,
                           .height = j->height,
                           .pixels = j->width * j->height,
                           .channels = j->n_parts,
                           .depth = 8,
                           .bytes = j->n };
    info->room = work_size((size_t)(info->pixels * j->n_parts)) + jpeg_rows_room(j);
    for (int i = 0; i < j->n_parts; i++) {
        size_t samples = (size_t)(j->parts[i].stride * j->parts[i].rows) * 64;
        info->room += work_size(samples);
        if (j->progressive)
            info->room += work_size(samples * sizeof(int16_t));
    }
}

Err jpeg_parse(const char *name, const unsigned char *bytes, size_t n, ImageInfo *info)
{
    Jpeg    j;
    Segment scan;
    TRY(jpeg_begin(&j, name, bytes, n, &scan));
    jpeg_info(&j, info);
    return jpeg_end(&j);
}

/* ---- decoding ---- */

/* The first of that name which the scan does not have yet: names may be given twice. */
static JpegPart *part_find(Jpeg *j, const JpegScan *scan, int id)
{
    for (int i = 0; i < j->n_parts; i++) {
        bool taken = false;
        for (int k = 0; k < scan->n; k++)
            taken = taken || scan->parts[k] == &j->parts[i];
        if (j->parts[i].id == id && !taken)
            return &j->parts[i];
    }
    return NULL;
}

/* Coefficients first..last of the part go on where its scans before left them. */
static Err part_begin(const Jpeg *j, const JpegScan *scan, JpegPart *p)
{
    for (int k = scan->first; k <= scan->last; k++) {
        if (p->known[k] != (scan->high ? scan->high : -1) || (k && p->known[0] < 0))
            return jpeg_damaged(j, "a scan sends again or refines what was not sent");
        p->known[k] = (int8_t)scan->low;
    }
    if (scan->first || scan->high)           /* not the part's first */
        return OK;
    if (!j->quant_there[p->quant_at])
        return jpeg_damaged(j, "a quantiser that it names is missing");
    memcpy(p->quant, j->quant[p->quant_at], sizeof p->quant);
    return OK;
}

static Err scan_tables(const Jpeg *j, const JpegScan *scan)
{
    int blocks = 0;
    for (int i = 0; i < scan->n; i++) {
        bool dc = !scan->first && !scan->high, ac = scan->last > 0;
        if ((dc && !scan->dc[i]->there) || (ac && !scan->ac[i]->there))
            return jpeg_damaged(j, "a Huffman table that it names is missing");
        blocks += scan->parts[i]->h * scan->parts[i]->v;
    }
    return scan->n == 1 || blocks <= UNIT_MAX
               ? OK
               : jpeg_damaged(j, "a scan mixes more blocks than it may");
}

static Err scan_header(Jpeg *j, Segment s, JpegScan *scan)
{
    int n = s.n ? s.at[0] : 0;
    *scan = (JpegScan){ .last = 63 };
    if (n < 1 || n > j->n_parts || s.n != 4 + 2 * (size_t)n)
        return jpeg_damaged(j, "a scan's header is malformed");
    const unsigned char *at = s.at + 1, *rest = at + 2 * n;
    for (; scan->n < n; at += 2) {
        JpegPart *p = part_find(j, scan, at[0]);
        if (!p || at[1] >> 4 >= JPEG_TABLES || (at[1] & 15) >= JPEG_TABLES)
            return jpeg_damaged(j, "a scan's header is malformed");
        scan->dc[scan->n] = &j->dc[at[1] >> 4];
        scan->ac[scan->n] = &j->ac[at[1] & 15];
        scan->parts[scan->n++] = p;
    }
    if (j->progressive) {                    /* sequential ones send all at once */
        scan->first = rest[0];
        scan->last = rest[1];
        scan->high = rest[2] >> 4;
        scan->low = rest[2] & 15;
        if (scan->last > 63 || scan->first > scan->last || (!scan->first && scan->last) ||
            (scan->first && n > 1) || scan->low > 13 || (scan->high && scan->high != scan->low + 1))
            return jpeg_damaged(j, "a scan's header is malformed");
    }
    for (int i = 0; i < n; i++)
        TRY(part_begin(j, scan, scan->parts[i]));
    return scan_tables(j, scan);
}

static Err parts_whole(const Jpeg *j)
{
    for (int i = 0; i < j->n_parts; i++)
        for (int k = 0; k < 64; k++)
            if (j->parts[i].known[k])
                return jpeg_damaged(j, "its last scans are missing");
    return OK;
}

static void parts_take(Jpeg *j, Work *work)
{
    for (int i = 0; i < j->n_parts; i++) {
        JpegPart *p = &j->parts[i];
        size_t    samples = (size_t)(p->stride * p->rows) * 64;
        p->plane = work_take(work, samples);
        if (j->progressive) {
            p->blocks = work_take(work, samples * sizeof *p->blocks);
            memset(p->blocks, 0, samples * sizeof *p->blocks);
        }
    }
}

static void part_samples(const JpegPart *p)          /* of a progressive one */
{
    for (int64_t y = 0; y < p->down; y++)
        for (int64_t x = 0; x < p->across; x++)
            jpeg_block(p->blocks + (y * p->stride + x) * 64, p->quant,
                       p->plane + (y * p->stride * 8 + x) * 8, p->stride * 8);
}

Err jpeg_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out)
{
    Jpeg        j;
    JpegScan    scan;
    ImageInfo info;
    Segment     s;
    TRY(jpeg_begin(&j, name, bytes, n, &s));
    jpeg_info(&j, &info);
    TRY(raster_room(name, &info, work));
    uint8_t *pixels = work_take(work, (size_t)(info.pixels * info.channels));
    parts_take(&j, work);
    while (s.n) {
        TRY(scan_header(&j, s, &scan));
        TRY(jpeg_scan(&j, &scan));
        TRY(segments(&j, &s));
    }
    TRY(parts_whole(&j));
    for (int i = 0; i < j.n_parts && j.progressive; i++)
        part_samples(&j.parts[i]);
    jpeg_pixels(&j, work, pixels);
    *out = (Raster){ .height = j.height, .width = j.width, .channels = j.n_parts, .depth = 8,
                     .at = pixels };
    return OK;
}
