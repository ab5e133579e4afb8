"""JPEG files beside PIL (libjpeg-turbo): the same levels, pixel by pixel, and files that are not read.

    test_jpeg.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/jpeg.c. Files are PIL's own; of its grey ones others are put together that it does not write: any
sampling factors, a scan for each colour, tables sent again, quantisers of 16 bits, fill bytes, names of colours."""
import io
import os
import shutil
import subprocess
import sys
import time

try:
    import numpy as np
    import PIL
    from PIL import Image, ImageFile, ImageOps
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
SIZES = [(1, 1), (1, 17), (17, 1), (2, 2), (3, 5), (4, 4), (5, 3), (7, 9), (8, 8), (15, 16), (16, 16), (17, 33), (64, 48),
         (333, 217)]


def image_array(rng, width, height, kind):
    """Smooth colours, hard edges, or noise: what overflows, what rings, what fills every coefficient."""
    y, x = np.mgrid[0:height, 0:width]
    if kind == "noise":
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if kind == "edges":
        a = ((x // 5 + y // 7) % 2 * 255)[..., None] ^ rng.integers(0, 2, (1, 1, 3)) * 255
        return a.astype(np.uint8)
    phase = rng.uniform(0, 6, 3)
    return (127.5 + 127.5 * np.sin(x[..., None] / 9 + phase) * np.cos(y[..., None] / 13 - phase)).astype(np.uint8)


def coded(array, **options):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "JPEG", **options)
    return out.getvalue()


def segments(data):
    """(marker, its bytes, coded data after it) of a whole file, without the first mark."""
    at, found = 2, []
    while at < len(data):
        marker, at = data[at + 1], at + 2
        if marker == 0xD9:
            return found
        length = int.from_bytes(data[at:at + 2], "big")
        end = at + length
        if marker == 0xDA:
            while data[end] != 0xFF or data[end + 1] == 0 or 0xD0 <= data[end + 1] <= 0xD7:
                end += 1
        found.append((marker, data[at + 2:at + length], data[at + length:end]))
        at = end
    raise AssertionError("no end")


def segment(marker, payload, after=b"", fill=0):
    return b"\xff" * fill + bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload + after


def together(planes, factors, size, ids=(1, 2, 3), wide=False, fill=0, head=b"", sof=None, **options):
    """Grey files of their own sizes as one file of several colours, a scan (or more) for each."""
    out, tables, scans, kind = b"\xff\xd8" + head, b"", b"", None
    for i, plane in enumerate(planes):
        for marker, payload, after in segments(coded(plane, **options)):
            if marker == 0xDB:
                table = payload[1:65]
                if wide:
                    table = b"".join(bytes([0, q]) for q in table)
                tables += segment(0xDB, bytes([wide << 4 | i]) + table, fill=fill)
            elif 0xC0 <= marker <= 0xC2:
                kind = marker
            elif marker in (0xC4, 0xDD):
                scans += segment(marker, payload, fill=fill)
            elif marker == 0xDA:
                scans += segment(0xDA, bytes([1, ids[i]]) + payload[2:], after, fill=fill)
    frame = bytes([8]) + size[1].to_bytes(2, "big") + size[0].to_bytes(2, "big") + bytes([len(planes)])
    for i, (h, v) in enumerate(factors):
        frame += bytes([ids[i], h << 4 | v, i])
    return out + tables + segment(sof or kind, frame, fill=fill) + scans + b"\xff" * fill + b"\xff\xd9"


def odd_files(rng):
    up = lambda x, by: -(-x // by)
    ratios = [[(1, 1)] * 3, [(2, 2), (1, 1), (1, 1)], [(2, 1), (1, 1), (1, 1)], [(1, 2), (1, 1), (1, 1)],
              [(4, 1), (1, 1), (1, 1)], [(4, 2), (1, 1), (1, 1)], [(1, 4), (1, 1), (1, 1)], [(4, 4), (2, 2), (1, 1)],
              [(2, 2), (2, 1), (1, 2)], [(4, 4), (2, 4), (4, 2)], [(3, 1), (1, 1), (1, 1)], [(1, 1), (2, 2), (2, 2)],
              [(4, 2), (2, 1), (2, 2)], [(2, 4), (1, 2), (2, 2)], [(2, 2), (2, 2), (2, 2)], [(3, 3), (1, 3), (3, 1)]]
    for factors in ratios:
        h_max, v_max = max(h for h, v in factors), max(v for h, v in factors)
        for width, height in SIZES:
            for progressive in (False, True):
                planes = [image_array(rng, up(width * h, h_max), up(height * v, v_max), rng.choice(["smooth", "noise"]))[..., 0]
                          for h, v in factors]
                yield "odd", together(planes, factors, (width, height), wide=rng.random() < 0.5, fill=int(rng.integers(0, 3)),
                                      progressive=progressive, quality=int(rng.integers(1, 101)),
                                      restart_marker_blocks=int(rng.integers(0, 5)))
    planes = [image_array(rng, 21, 18, "smooth")[..., c] for c in range(3)]
    one = [(1, 1)] * 3
    adobe = lambda transform: segment(0xEE, b"Adobe\0d\0\0\0\0" + bytes([transform]))
    jfif = segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    for head in (b"", adobe(0), adobe(1), adobe(2), jfif, jfif + adobe(0), adobe(0) + jfif, segment(0xE1, b"x" * 3000)):
        for ids in ((1, 2, 3), tuple(b"RGB"), tuple(b"rgb"), (0, 1, 2)):
            yield "names", together(planes, one, (21, 18), ids=ids, head=head)
    same = bytearray(coded(image_array(rng, 21, 18, "smooth"), subsampling=2))
    for i in range(3):
        same[same.index(b"\xff\xc0") + 10 + 3 * i] = same[same.index(b"\xff\xda") + 5 + 2 * i] = 5
    yield "one name for all", bytes(same)
    yield "extended", together(planes, one, (21, 18), sof=0xC1)
    yield "grey with factors", together(planes[:1], [(2, 2)], (21, 18))
    yield "grey with factors", together(planes[:1], [(3, 1)], (21, 18), progressive=True)
    yield "restart at the end", coded(image_array(rng, 20, 20, "smooth"))[:-2] + b"\xff\xd3\xff\xd9"
    yield "after the end", coded(image_array(rng, 20, 20, "smooth")) + b"more \xff\xd8 of others"


def plain_files(rng):
    for width, height in SIZES:
        for kind in ("smooth", "edges", "noise"):
            array = image_array(rng, width, height, kind)
            for progressive in (False, True):
                for subsampling in (0, 1, 2):
                    for optimize in (False, True):
                        yield "plain", coded(array, quality=int(rng.integers(1, 101)), subsampling=subsampling,
                                             progressive=progressive, optimize=optimize,
                                             restart_marker_blocks=int(rng.choice([0, 0, 1, 3])),
                                             restart_marker_rows=int(rng.choice([0, 0, 1])))
                yield "grey", coded(array[..., 0], quality=int(rng.integers(1, 101)), progressive=progressive)
                yield "RGB inside", coded(array, quality=int(rng.integers(1, 101)), keep_rgb=True, progressive=progressive)
    for quality in range(1, 101):
        for kind in ("smooth", "edges", "noise"):
            yield "quality", coded(image_array(rng, 61, 47, kind), quality=quality, subsampling=int(rng.integers(0, 3)),
                                   progressive=bool(rng.integers(0, 2)))
    for way in range(1, 9):                                 # how the camera was held, in both byte orders
        big = b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0%c\0\0\0\0\0\0" % way
        little = b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0%c\0\0\0\0\0\0\0" % way
        for exif in big, little:
            yield "exif", coded(image_array(rng, 40, 30, "smooth"), exif=exif, progressive=bool(way & 1))
            yield "exif", coded(image_array(rng, 13, 30, "smooth")[..., 0], exif=exif)
    for exif in (b"", b"Exif\0\0", big[:-8], big[:16] + b"\xff" * 8, little[:10] + b"\xff\xff\xff\xff", big.replace(b"\0\x08\0\0", b"\0\x09\0\0")):
        yield "exif without an orientation", coded(image_array(rng, 40, 30, "smooth"))[:2] + segment(0xE1, exif) + coded(image_array(rng, 9, 8, "noise"))[2:]
    for name, options in (("comment", {"comment": b"\xff\xd9" * 9}), ("profile", {"icc_profile": b"\xff\xd8" * 70000})):
        yield name, coded(image_array(rng, 40, 30, "smooth"), **options)


def refused_files(rng):
    array = image_array(rng, 40, 30, "smooth")
    cmyk = io.BytesIO()
    Image.fromarray(array).convert("CMYK").save(cmyk, "JPEG")
    whole = coded(array)
    frame = whole.index(b"\xff\xc0")
    sof = lambda marker: whole[:frame + 1] + bytes([marker]) + whole[frame + 2:]
    yield "four colours", cmyk.getvalue()
    yield "lossless", sof(0xC3)
    yield "hierarchical", sof(0xC5)
    yield "arithmetic", sof(0xC9)
    yield "arithmetic", sof(0xCA)
    yield "12 bits", whole[:frame + 4] + b"\x0c" + whole[frame + 5:]
    yield "DNL", whole[:frame + 5] + b"\0\0" + whole[frame + 7:]
    yield "end mark", whole[:-2]
    yield "end mark", whole[:len(whole) // 2]
    yield "JPEG", whole[:frame + 3]
    yield "neither", b"GIF89a" + whole
    yield "empty", b""
    progressive = coded(array, progressive=True)
    last = progressive.rindex(b"\xff\xda")
    yield "last scans are missing", progressive[:progressive.rindex(b"\xff\xc4", 0, last)] + b"\xff\xd9"
    planes = [array[..., c] for c in range(3)]
    yield "do not divide", together(planes, [(3, 1), (2, 1), (1, 1)], (40, 30))
    two = together(planes, [(1, 1)] * 3, (40, 30))
    yield "last scans are missing", two[:two.rindex(b"\xff\xc4")] + b"\xff\xd9"


def damaged_files(rng):
    for k in range(3000):
        data = bytearray(coded(image_array(rng, 50, 40, rng.choice(["smooth", "edges"])), quality=75, subsampling=int(k % 3),
                               progressive=bool(k & 1), restart_marker_blocks=int(k // 2 % 3)))
        if k % 5 == 0:
            data = data[:int(rng.integers(0, len(data)))] + (b"\xff\xd9" if k % 2 else b"")
        for _ in range(int(rng.integers(1, 4)) if k % 5 else 0):
            data[int(rng.integers(2, len(data)))] = int(rng.integers(0, 256))
        yield "damaged", bytes(data)


class Decoder:
    def __init__(self):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, path):
        """(levels, seconds) or (None, its sentence)."""
        self.process.stdin.write(path.encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"{path}: the decoder ended"
        if line.startswith(b"- "):
            return None, line[2:].decode().strip()
        width, height, channels = map(int, line.split()[:3])
        samples = np.frombuffer(self.process.stdout.read(width * height * channels), np.uint8)
        return samples.reshape(height, width, channels), float(line.split()[3])


def theirs(path):
    with Image.open(path) as image:
        array = np.asarray(ImageOps.exif_transpose(image) if image.getexif().get(0x0112, 1) != 1 else image)
    return array if array.ndim == 3 else array[..., None]


def compare(ours):
    counts = {}
    for name, data in [*plain_files(np.random.default_rng(1)), *odd_files(np.random.default_rng(2))]:
        path = os.path.join(work, "a.jpg")
        open(path, "wb").write(data)
        got, said = ours(path)
        assert got is not None, (name, said)
        want = theirs(path)
        assert got.shape == want.shape, (name, got.shape, want.shape)
        off = int(np.abs(got.astype(int) - want.astype(int)).max())
        if off:
            keep = os.path.join(work, f"off-{sum(c for c, _ in counts.values())}.jpg")
            shutil.copy(path, keep)
            print(f"{name} {want.shape}: {off} levels off, {(got != want).mean():.2%} of samples; kept as {keep}")
        count, most = counts.get(name, (0, 0))
        counts[name] = count + 1, max(most, off)
    for name, (count, most) in counts.items():
        print(f"{name}: {count} files, " + ("equal" if not most else f"up to {most} levels off"))
    return max(most for _, most in counts.values())


def refuse(ours):
    for reason, data in refused_files(np.random.default_rng(3)):
        path = os.path.join(work, "refused.jpg")
        open(path, "wb").write(data)
        got, said = ours(path)
        assert got is None and path in said and reason in said, (reason, said)
    read = refused = 0
    for name, data in damaged_files(np.random.default_rng(4)):
        path = os.path.join(work, "damaged.jpg")
        open(path, "wb").write(data)
        got, said = ours(path)
        assert got is not None or path in said, said
        read, refused = read + (got is not None), refused + (got is None)
    print(f"damaged: {refused} refused, {read} with other levels and nothing to tell it by")


def speed(ours):
    """Printed, not checked: the machine may be busy."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:1024, 0:1024]
    base = 127 + 60 * np.sin(x / 40)[..., None] * np.cos(y / 60)[..., None] + rng.normal(0, 12, (1024, 1024, 3))
    for name, options in (("4:2:0", {"subsampling": 2}), ("4:4:4", {"subsampling": 0}),
                          ("4:2:0 progressive", {"subsampling": 2, "progressive": True})):
        path = os.path.join(work, "large.jpg")
        data = coded(base.clip(0, 255).astype(np.uint8), quality=85, **options)
        open(path, "wb").write(data)
        our, their = [], []
        for _ in range(9):
            our.append(ours(path)[1])
            start = time.perf_counter()
            theirs(path)
            their.append(time.perf_counter() - start)
        a, b = sorted(our)[0] * 1e3, sorted(their)[0] * 1e3
        print(f"1024x1024 {name}, {len(data) >> 10} KiB: {a:.1f} ms, PIL {b:.1f} ms: {a / b:.1f} times")


def main():
    os.makedirs(work, exist_ok=True)
    ImageFile.MAXBLOCK = 1 << 24              # PIL writes some files only in one go
    print(f"PIL {PIL.__version__}")
    ours = Decoder()
    off = compare(ours)
    refuse(ours)
    speed(ours)
    ours.process.stdin.close()
    assert ours.process.wait() == 0
    sys.exit(off > 0)


main()
