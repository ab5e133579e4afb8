/* zip.h -- a zip archive, mapped: PyTorch's .pt, .pth, .ckpt and .pt2, and .npz.
 *
 *   ZipFile zip;
 *   TRY(zip_read(pool, "model.pt2", &zip));
 *   const ZipMember *member = zip_find(&zip, "model/archive_format");
 *   TRY(zip_content(pool, &zip, member, 0, &bytes, &n));
 *
 * Stored members are given as they lie in the file, without a copy; deflated ones are inflated into
 * the pool and their CRC is checked. zip64 is understood. Encrypted and split archives, other
 * methods, names that occur twice, members that overlap, and sizes that no deflated data can reach
 * are refused, each with one sentence.
 */
#ifndef BASE_ZIP_H
#define BASE_ZIP_H

#include <stdbool.h>

#include "base/err.h"
#include "base/pool.h"

typedef struct ZipMember {
    const char          *name;
    const unsigned char *data; /* as it lies in the file */
    size_t               packed, size;
    uint32_t             crc;
    bool                 deflated;
} ZipMember;

typedef struct ZipFile {
    const char       *path;
    int32_t           n;
    const ZipMember  *members; /* in the order of the directory */
    const ZipMember **by_name; /* sorted */
} ZipFile;

enum { ZIP_CHECK_STORED = 1 }; /* also check the CRC of stored members, unless it is 0: not given */

/* Is this the beginning of an archive? */
bool zip_likely(const void *bytes, size_t n);

Err zip_read(Pool *pool, const char *path, ZipFile *out);
Err zip_parse(Pool *pool, const char *name, const void *bytes, size_t n, ZipFile *out);

const ZipMember *zip_find(const ZipFile *zip, const char *name); /* NULL: absent */
Err              zip_content(Pool *pool, const ZipFile *zip, const ZipMember *member, int flags,
                             const unsigned char **bytes, size_t *n);

#endif
