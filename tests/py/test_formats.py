"""Our readers and writers against Python's: json, numpy, safetensors, PyYAML, in both directions.

Run from anywhere: python3 tests/py/test_formats.py. Tests whose package is missing are skipped, with a
message. The C side is formats_dump.c, built here with $CC (default cc).
"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(folder):
    dump = folder / "formats_dump"
    sources = [ROOT / "tests/py/formats_dump.c", *sorted((ROOT / "src/base").glob("*.c"))]
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-D_GNU_SOURCE", "-O1",
                    f"-I{ROOT}/src",
                    *map(str, sources), "-lm", "-o", str(dump)], check=True)
    return dump


class Dump:
    def __init__(self, folder):
        self.program, self.folder = build(folder), folder

    def __call__(self, kind, data):
        """Gives what the C side makes of these bytes: (bytes, None) or (None, its sentence)."""
        source, target = self.folder / "in", self.folder / "out"
        source.write_bytes(data)
        target.unlink(missing_ok=True)
        done = subprocess.run([self.program, kind, source, target], capture_output=True, text=True)
        if done.returncode == 0:
            return target.read_bytes(), None
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done
        assert not target.exists()
        return None, done.stderr


def random_value(rng, depth=0):
    kind = rng.randrange(5 if depth > 4 else 7)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, -1, 2**63 - 1, -2**63, rng.randrange(-10**6, 10**6)])
    if kind == 2:
        return rng.choice([0.1, -2.5e-300, 1e22, 1.7976931348623157e308, rng.random(), 5e-324])
    if kind in (3, 4):
        letters = 'abc "\\/\n\t\x01é€😀:#-[]{},&*!|>%@`\'?0123'
        return "".join(rng.choice(letters) for _ in range(rng.randrange(8)))
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {f"k{i}{rng.choice('é:# x')}": random_value(rng,
                                                       depth + 1) for i in range(rng.randrange(16))}


def test_json(dump):
    rng = random.Random(1)
    for i in range(60):
        value = [random_value(rng) for _ in range(20)]
        for style in ({}, {"indent": 1}, {"ensure_ascii": False, "separators": (",", ":")}):
            out, said = dump("json", json.dumps(value, **style).encode())
            assert said is None, said
            back = json.loads(out)
            assert back == value and repr(back) == repr(value), (value, back)
    for bad in (b"", b"{", b"[1,]", b"{'a': 1}", b"[NaN]", b'{"a":1,"a":2}', b'"\xff"', b"01",
                b"[1]x"):
        assert dump("json", bad)[0] is None, bad


def test_yaml(dump):
    rng = random.Random(2)
    for i in range(30):                       # JSON is YAML
        value = [random_value(rng) for _ in range(10)]
        out, said = dump("yaml", json.dumps(value, indent=rng.choice([None, 2])).encode())
        assert said is None, said
        assert repr(json.loads(out)) == repr(value), (value, out)
    try:
        import yaml
    except ImportError:
        print("yaml: PyYAML is not installed; only JSON texts were tried")
        return

    def plain(value):                         # where YAML 1.1 and 1.2 agree, texts on one line
        if isinstance(value, dict):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, list):
            return [plain(v) for v in value]
        if isinstance(value, str):
            return "".join(c for c in value if c >= " ")
        return value if not isinstance(value, float) else round(value % 1000, 3)

    for i in range(60):
        value = plain({f"key{k}": random_value(rng) for k in range(8)})
        for flow in (False, None):
            text = yaml.safe_dump(value, allow_unicode=True, width=10**6, default_flow_style=flow)
            if "? " in text:
                continue                      # a complex key
            out, said = dump("yaml", text.encode())
            assert said is None, (text, said)
            assert json.loads(out) == value, (text, out)


def test_safetensors(dump):
    try:
        import numpy
        from safetensors.numpy import load, save
    except ImportError:
        print("safetensors: skipped, the package is not installed")
        return
    rng = numpy.random.default_rng(3)
    types = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    for i in range(20):
        tensors = {}
        for k in range(int(rng.integers(0, 12))):
            shape = tuple(int(n) for n in rng.integers(0, 5, size=int(rng.integers(0, 5))))
            tensors[f"layer.{k}.weight é"] = rng.integers(0, 2,
                                                          size=shape).astype(types[k % len(types)])
        data = save(tensors, {"format": "np", "note": 'a "b"'} if i % 2 else None)
        out, said = dump("safetensors", data)
        assert said is None, said
        back = load(out)
        assert back.keys() == tensors.keys()
        for name, want in tensors.items():
            got = back[name]
            assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all(), name
        again, said = dump("safetensors", out)
        assert again == out, "writing what was read changes it"
        if tensors:
            for cut in (1, len(data) // 2):
                assert dump("safetensors", data[:-cut])[0] is None
    same = {f"w{k}": numpy.full((k + 1, 2), k, "float32") for k in range(5)}
    assert dump("safetensors",
                save(same))[0] == save(same), "one type: the same bytes as the package"


def test_npy(dump):
    try:
        import io

        import numpy
    except ImportError:
        print("npy: skipped, numpy is not installed")
        return
    for code in ("<f4", "<f8", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "|b1"):
        for shape in ((), (3,), (2, 3), (0, 4), (1, 2, 3, 4)):
            for version in ((1, 0), (2, 0), (3, 0)):
                array = numpy.arange(math.prod(shape)).reshape(shape).astype(code)
                file = io.BytesIO()
                numpy.lib.format.write_array(file, array, version=version)
                out, said = dump("npy", file.getvalue())
                assert said is None, said
                back = numpy.load(io.BytesIO(out))
                assert back.dtype == array.dtype and back.shape == array.shape
                assert (back == array).all()
    for array in (numpy.zeros((2, 3), ">f4"), numpy.zeros((2, 3), "<c8"),
                  numpy.asfortranarray(numpy.ones((2, 3)))):
        file = io.BytesIO()
        numpy.save(file, array)
        assert dump("npy", file.getvalue())[0] is None


def main():
    with tempfile.TemporaryDirectory() as folder:
        dump = Dump(Path(folder))
        for test in (test_json, test_yaml, test_safetensors, test_npy):
            test(dump)
            print(f"{test.__name__}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
