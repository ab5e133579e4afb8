/* jpeg.c -- reading JPEG (ITU T.81): markers and tables, from the first to the end marker.
 *
 * Why not libjpeg-turbo: it allocates for every image, and nothing may be allocated after step 1.
 * Measured with 2.1.5 on baseline and progressive images of 64 to 2,048 pixels a side: 5 to 12
 * calls of malloc an image, and still 3 to 9 where one decompressor is used again after
 * jpeg_abort. The count is 0 only if the function table of its memory manager, which is not meant
 * to be replaced, is replaced after creation; the decompressors of all loading threads must then
 * exist before step 1, and the memory of an image must be guessed, since the library does not say
 * beforehand what it will need. By default it also decodes half of the damaged files that are
 * refused here. Pixels are equal to its own (tests/py/test_jpeg.py). */
#include "base/endian.h"
#include "base/int_math.h"
#include "data/jpeg_int.h"

#include <string.h>

enum { /* markers, after their FF */
       TEM = 0x01,
       SOF0 = 0xC0,
       SOF2 = 0xC2,
       DHT = 0xC4,
       DAC = 0xCC,
       SOF15 = 0xCF,
       RST0 = 0xD0,
       RST7 = 0xD7,
       SOI = 0xD8,
       EOI = 0xD9,
       SOS = 0xDA,
       DQT = 0xDB,
       DNL = 0xDC,
       DRI = 0xDD,
       DHP = 0xDE,
       EXP = 0xDF,
       APP0 = 0xE0,
       APP1 = 0xE1,
       APP14 = 0xEE
};
enum { SMALL_BYTES = 64 * 1024, MCU_BLOCKS_MAX = 10 };

typedef struct Segment {
    const unsigned char *at;
    size_t               n;
} Segment;

Err jpeg_damaged(const Jpeg *j, const char *how)
{
    return fail(E_FORMAT, "%s is a damaged JPEG: %s; remove it, or save it again", j->name, how);
}

static Err jpeg_truncated(const Jpeg *j)
{
    return fail(E_FORMAT, "%s is a truncated JPEG: it ends after %zu bytes without an end marker",
                j->name, j->n);
}

static Err jpeg_unsupported(const Jpeg *j, const char *what)
{
    return fail(E_FORMAT,
                "%s is a JPEG with %s, which is not read: convert it to PNG, or to a "
                "plain JPEG of 8 bits in grey or colour",
                j->name, what);
}

/* ---- tables ---- */

static Err quant_tables(Jpeg *j, Segment s)
{
    while (s.n) {
        int    wide = s.at[0] >> 4, to = s.at[0] & 15;
        size_t n = wide ? 129 : 65;
        if (wide > 1 || to >= JPEG_TABLES || s.n < n)
            return jpeg_damaged(j, "its quantisation tables are malformed");
        for (int k = 0; k < 64; k++) {
            int x = wide ? big16(s.at + 1 + 2 * k) : s.at[1 + k];
            if (!x)
                return jpeg_damaged(j, "a quantisation table has a 0");
            j->quant[to][jpeg_zigzag[k]] = (uint16_t)x;
        }
        j->has_quant[to] = true;
        s.at += n;
        s.n -= n;
    }
    return OK;
}

/* The codes of each length follow those of the length before (T.81 annex C). False: too many. */
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
    return h->present = true;
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
            if (h->symbols[i] > 15) /* a DC symbol is a number of bits */
                return jpeg_damaged(j, "its Huffman tables are malformed");
        if (!huffman_build(h, s.at + 1))
            return jpeg_damaged(j, "a Huffman table has more codes than their lengths allow");
        s.at += 17 + n;
        s.n -= 17 + n;
    }
    return OK;
}

/* ---- the frame ---- */

static Err frame_components(Jpeg *j, const unsigned char *at)
{
    for (int i = 0; i < j->n_components; i++, at += 3) {
        JpegComponent *p = &j->components[i];
        *p = (JpegComponent){ .id = at[0], .h = at[1] >> 4, .v = at[1] & 15, .quant_at = at[2] };
        memset(p->known, -1, sizeof p->known);
        if (p->h < 1 || p->h > 4 || p->v < 1 || p->v > 4 || p->quant_at >= JPEG_TABLES)
            return jpeg_damaged(j, "its frame header is malformed");
        if (j->n_components == 1) /* sampling factors mean nothing here */
            p->h = p->v = 1;
        j->h_max = p->h > j->h_max ? p->h : j->h_max;
        j->v_max = p->v > j->v_max ? p->v : j->v_max;
    }
    j->mcus_across = ceil_div(j->width, 8 * j->h_max);
    j->mcus_down = ceil_div(j->height, 8 * j->v_max);
    for (int i = 0; i < j->n_components; i++) {
        JpegComponent *p = &j->components[i];
        if (j->h_max % p->h || j->v_max % p->v)
            return jpeg_unsupported(j, "components whose sizes do not divide each other");
        p->width = ceil_div(j->width * p->h, j->h_max);
        p->height = ceil_div(j->height * p->v, j->v_max);
        p->across = ceil_div(p->width, 8);
        p->down = ceil_div(p->height, 8);
        p->stride = j->mcus_across * p->h;
        p->rows = j->mcus_down * p->v;
    }
    return OK;
}

static Err frame_header(Jpeg *j, int marker, Segment s)
{
    static const char *const kinds[16] = { NULL,
                                           NULL,
                                           NULL,
                                           "lossless coding",
                                           NULL,
                                           "hierarchical coding",
                                           "hierarchical coding",
                                           "hierarchical coding",
                                           "an extension",
                                           "arithmetic coding",
                                           "arithmetic coding",
                                           "arithmetic coding",
                                           NULL,
                                           "arithmetic coding",
                                           "arithmetic coding",
                                           "arithmetic coding" };
    if (kinds[marker & 15])
        return jpeg_unsupported(j, kinds[marker & 15]);
    if (j->n_components || s.n < 6 || s.n != 6 + 3 * (size_t)s.at[5])
        return jpeg_damaged(j, j->n_components ? "it has two frames"
                                               : "its frame header is malformed");
    int n = s.at[5];
    if (s.at[0] != 8)
        return jpeg_unsupported(j, s.at[0] == 12 ? "12 bits a sample"
                                                 : "samples of neither 8 nor 12 bits");
    if (n != 1 && n != 3)
        return jpeg_unsupported(j,
                                n == 4 ? "four colours (CMYK)" : "neither one component nor three");
    j->height = big16(s.at + 1);
    j->width = big16(s.at + 3);
    if (!j->height)
        return jpeg_unsupported(j, "its height after the image (DNL)");
    TRY(raster_size(j->name, j->width, j->height));
    j->progressive = marker == SOF2;
    j->n_components = n;
    return frame_components(j, s.at + 6);
}

/* ---- segments ---- */

static void application(Jpeg *j, int marker, Segment s)
{
    if (marker == APP0 && s.n >= 14 && !memcmp(s.at, "JFIF", 5))
        j->jfif = true;
    if (marker == APP1 && j->orientation == 1)
        j->orientation = jpeg_orientation(s.at, s.n);
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
        return jpeg_unsupported(j, "its height after the image (DNL)");
    else if (marker == DHP || marker == EXP)
        return jpeg_unsupported(j, "hierarchical coding");
    else if (marker == DAC)
        return jpeg_unsupported(j, "arithmetic coding");
    else if (marker >= SOF0 && marker <= SOF15)
        return frame_header(j, marker, s);
    else
        application(j, marker, s);
    return OK;
}

/* Reads all segments up to the header of the next scan, which is put into *s; at the end of the
 * image *s is empty. */
static Err segments_read(Jpeg *j, Segment *s)
{
    for (;;) {
        if (j->n - j->at < 2)
            return jpeg_truncated(j);
        if (j->bytes[j->at] != 0xFF)
            return jpeg_damaged(j, "there are stray bytes between its segments");
        int marker = j->bytes[++j->at];
        if (marker == 0xFF) /* fill bytes may precede a marker */
            continue;
        j->at++;
        *s = (Segment){ 0 };
        if (marker == EOI)
            return j->n_components ? OK : jpeg_damaged(j, "it has no image");
        if (marker == TEM || (marker >= RST0 && marker <= RST7))
            continue; /* no meaning here; some programs write them */
        if (marker < SOF0 || marker == SOI)
            return jpeg_damaged(j, "there is a misplaced marker between its segments");
        size_t length = j->n - j->at < 2 ? 0 : (size_t)big16(j->bytes + j->at);
        if (length > j->n - j->at || j->n - j->at < 2)
            return jpeg_truncated(j);
        if (length < 2)
            return jpeg_damaged(j, "the length of a segment is less than 2");
        *s = (Segment){ j->bytes + j->at + 2, length - 2 };
        j->at += length;
        if (marker == SOS)
            return j->n_components ? OK : jpeg_damaged(j, "it has no frame header");
        TRY(segment_take(j, marker, *s));
    }
}

static Err jpeg_begin(Jpeg *j, const char *name, const unsigned char *bytes, size_t n, Segment *s)
{
    *j = (Jpeg){ .name = name, .bytes = bytes, .n = n, .at = 2, .orientation = 1, .adobe = -1 };
    if (n < 2)
        return jpeg_truncated(j);
    if (bytes[0] != JPEG_FIRST || bytes[1] != SOI)
        return fail(E_FORMAT, "%s is not a JPEG: it does not begin with JPEG's start marker", name);
    TRY(segments_read(j, s));
    return s->n ? OK : jpeg_damaged(j, "it has no image");
}

/* ---- before decoding ---- */

/* Looks for the end marker from the first scan on; other bytes may follow it. A large file whose
 * last bytes are the marker is accepted at once. */
static Err jpeg_find_end(const Jpeg *j)
{
    const unsigned char *at = j->bytes + j->at, *end = j->bytes + j->n;
    if (j->n > SMALL_BYTES && end[-2] == 0xFF && end[-1] == EOI)
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
    bool across = j->orientation >= 5;
    *info = (ImageInfo){ .width = across ? j->height : j->width,
                         .height = across ? j->width : j->height,
                         .pixels = j->width * j->height,
                         .channels = j->n_components,
                         .depth = 8,
                         .bytes = j->n };
    info->room = work_size((size_t)(info->pixels * j->n_components)) + jpeg_rows_bytes(j);
    if (j->orientation > 1)
        info->room += work_size((size_t)(info->pixels * j->n_components));
    for (int i = 0; i < j->n_components; i++) {
        size_t samples = (size_t)(j->components[i].stride * j->components[i].rows) * 64;
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
    return jpeg_find_end(&j);
}

/* ---- decoding ---- */

/* The first component of that id that the scan does not have yet: files may repeat an id. */
static JpegComponent *component_find(Jpeg *j, const JpegScan *scan, int id)
{
    for (int i = 0; i < j->n_components; i++) {
        bool taken = false;
        for (int k = 0; k < scan->n; k++)
            taken = taken || scan->components[k] == &j->components[i];
        if (j->components[i].id == id && !taken)
            return &j->components[i];
    }
    return NULL;
}

/* A scan must continue where earlier scans left coefficients first..last of the component. */
static Err component_begin(const Jpeg *j, const JpegScan *scan, JpegComponent *p)
{
    for (int k = scan->first; k <= scan->last; k++) {
        if (p->known[k] != (scan->high ? scan->high : -1) || (k && p->known[0] < 0))
            return jpeg_damaged(j, "a scan repeats coefficients or refines missing ones");
        p->known[k] = (int8_t)scan->low;
    }
    if (scan->first || scan->high) /* not the component's first scan */
        return OK;
    if (!j->has_quant[p->quant_at])
        return jpeg_damaged(j, "a quantisation table is missing");
    memcpy(p->quant, j->quant[p->quant_at], sizeof p->quant);
    return OK;
}

static Err scan_tables(const Jpeg *j, const JpegScan *scan)
{
    int blocks = 0;
    for (int i = 0; i < scan->n; i++) {
        bool dc = !scan->first && !scan->high, ac = scan->last > 0;
        if ((dc && !scan->dc[i]->present) || (ac && !scan->ac[i]->present))
            return jpeg_damaged(j, "a Huffman table is missing");
        blocks += scan->components[i]->h * scan->components[i]->v;
    }
    return scan->n == 1 || blocks <= MCU_BLOCKS_MAX
               ? OK
               : jpeg_damaged(j, "a scan interleaves too many blocks");
}

static Err scan_header(Jpeg *j, Segment s, JpegScan *scan)
{
    int n = s.n ? s.at[0] : 0;
    *scan = (JpegScan){ .last = 63 };
    if (n < 1 || n > j->n_components || s.n != 4 + 2 * (size_t)n)
        return jpeg_damaged(j, "a scan's header is malformed");
    const unsigned char *at = s.at + 1, *rest = at + 2 * n;
    for (; scan->n < n; at += 2) {
        JpegComponent *p = component_find(j, scan, at[0]);
        if (!p || at[1] >> 4 >= JPEG_TABLES || (at[1] & 15) >= JPEG_TABLES)
            return jpeg_damaged(j, "a scan's header is malformed");
        scan->dc[scan->n] = &j->dc[at[1] >> 4];
        scan->ac[scan->n] = &j->ac[at[1] & 15];
        scan->components[scan->n++] = p;
    }
    if (j->progressive) { /* a sequential scan has all coefficients */
        scan->first = rest[0];
        scan->last = rest[1];
        scan->high = rest[2] >> 4;
        scan->low = rest[2] & 15;
        if (scan->last > 63 || scan->first > scan->last || (!scan->first && scan->last) ||
            (scan->first && n > 1) || scan->low > 13 || (scan->high && scan->high != scan->low + 1))
            return jpeg_damaged(j, "a scan's header is malformed");
    }
    for (int i = 0; i < n; i++)
        TRY(component_begin(j, scan, scan->components[i]));
    return scan_tables(j, scan);
}

static Err components_complete(const Jpeg *j)
{
    for (int i = 0; i < j->n_components; i++)
        for (int k = 0; k < 64; k++)
            if (j->components[i].known[k])
                return jpeg_damaged(j, "its last scans are missing");
    return OK;
}

static void components_take(Jpeg *j, Work *work)
{
    for (int i = 0; i < j->n_components; i++) {
        JpegComponent *p = &j->components[i];
        size_t         samples = (size_t)(p->stride * p->rows) * 64;
        p->plane = work_take(work, samples);
        if (j->progressive) {
            p->blocks = work_take(work, samples * sizeof *p->blocks);
            memset(p->blocks, 0, samples * sizeof *p->blocks);
        }
    }
}

static void component_samples(const JpegComponent *p) /* of a progressive image */
{
    for (int64_t y = 0; y < p->down; y++)
        for (int64_t x = 0; x < p->across; x++)
            jpeg_block(p->blocks + (y * p->stride + x) * 64, p->quant,
                       p->plane + (y * p->stride * 8 + x) * 8, p->stride * 8);
}

Err jpeg_decode(const char *name, const unsigned char *bytes, size_t n, Work *work, Raster *out)
{
    Jpeg      j;
    JpegScan  scan;
    ImageInfo info;
    Segment   s;
    TRY(jpeg_begin(&j, name, bytes, n, &s));
    jpeg_info(&j, &info);
    TRY(raster_room(name, &info, work));
    size_t   pixel_bytes = (size_t)(info.pixels * info.channels);
    uint8_t *pixels = work_take(work, pixel_bytes);
    uint8_t *stored = j.orientation > 1 ? work_take(work, pixel_bytes) : pixels;
    components_take(&j, work);
    while (s.n) {
        TRY(scan_header(&j, s, &scan));
        TRY(jpeg_scan(&j, &scan));
        TRY(segments_read(&j, &s));
    }
    TRY(components_complete(&j));
    for (int i = 0; i < j.n_components && j.progressive; i++)
        component_samples(&j.components[i]);
    jpeg_pixels(&j, work, stored);
    if (stored != pixels)
        jpeg_upright(stored, j.height, j.width, j.n_components, j.orientation, pixels);
    *out = (Raster){ .height = info.height,
                     .width = info.width,
                     .channels = j.n_components,
                     .depth = 8,
                     .at = pixels };
    return OK;
}
