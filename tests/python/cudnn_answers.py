"""cuDNN's own answer to how much workspace a convolution takes on a GPU that is not here: the
library is given a description of the GPU (profiles/h200-device.cudnn) and asked as PyTorch does.

The engine is the first of the heuristics' list, as PyTorch takes it, then of the fallbacks.
"""
import ctypes
import glob
import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LIBRARIES = os.path.join(ROOT, ".venv-cuda", "lib", "python3*", "site-packages", "nvidia", "cudnn",
                         "lib", "libcudnn.so.9")
# cudnn_graph.h: descriptors, attributes and types of attributes
CONVOLUTION, ENGINE, CONFIG, HEURISTICS, PLAN, GRAPH, TENSOR, GPU = 1, 2, 3, 4, 5, 15, 17, 38
T_DATA, T_INT64, T_FLOAT, T_MODE, T_HEURISTICS, T_NOTE, T_DESCRIPTOR, T_CHAR = \
    1, 3, 4, 7, 8, 11, 15, 24
TYPES = {"float32": 0, "float16": 2, "bfloat16": 9}
OPERATIONS = {      # descriptor, and its attributes: convolution, x, w, y, alpha, beta
    "forward": (10, 702, 704, 703, 705, 700, 701), "data": (12, 708, 710, 709, 711, 706, 707),
    "weights": (11, 714, 716, 715, 717, 712, 713)}
MAX_ENGINES = 24
"""engines that are looked at"""
ROUNDS_INPUTS = 1
"""an engine of this note is not taken"""


class Refused(RuntimeError):
    """cuDNN does not do this."""


class Cudnn:
    """The library with a described GPU."""

    def __init__(self, library, description):
        self.lib = ctypes.CDLL(library)
        self.lib.cudnnGetErrorString.restype = ctypes.c_char_p
        with open(description) as f:
            text = f.read().strip().encode()
        self.gpu = self.new(GPU, [(2702, T_CHAR, ctypes.c_uint8, list(text))])

    def check(self, status):
        if status:
            raise Refused(self.lib.cudnnGetErrorString(status).decode())

    def new(self, kind, attributes, finish=True):
        """A descriptor. What it refers to must outlive it, and nothing here is ever freed."""
        made = ctypes.c_void_p()
        self.check(self.lib.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)))
        for name, type_, of, values in attributes:
            held = (of * len(values))(*values)
            self.check(self.lib.cudnnBackendSetAttribute(made, name, type_,
                                                         ctypes.c_int64(len(values)), held))
        if finish:
            self.check(self.lib.cudnnBackendFinalize(made))
        return made

    def get(self, of, name, type_, held):
        count = ctypes.c_int64()
        self.check(self.lib.cudnnBackendGetAttribute(
            of, name, type_, ctypes.c_int64(len(held)), ctypes.byref(count), held))
        return list(held)[:count.value]

    def tensor(self, letter, dtype, shape, last):
        return self.new(TENSOR, [
            (901, T_DATA, ctypes.c_int, [TYPES[dtype]]), (902, T_INT64, ctypes.c_int64, shape),
            (903, T_INT64, ctypes.c_int64, strides(shape, last)),
            (906, T_INT64, ctypes.c_int64, [ord(letter)]), (900, T_INT64, ctypes.c_int64, [16])])

    def graph(self, call):
        """call: plimsoll.convolutions.Call."""
        x, w, y, stride, padding, dilation = (list(s) for s in (
            call.x, call.w, call.y, call.stride, call.padding, call.dilation))
        if len(x) == 3:         # PyTorch gives 1-D convolutions a second axis
            for shape in (x, w, y):
                shape.insert(2, 1)
            stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
        integers = ((104, padding), (105, padding), (102, dilation), (103, stride))
        convolution = self.new(CONVOLUTION, [
            (106, T_INT64, ctypes.c_int64, [len(stride)]), (100, T_DATA, ctypes.c_int, [0]),
            (101, T_MODE, ctypes.c_int, [1]),
            *((n, T_INT64, ctypes.c_int64, values) for n, values in integers)])
        dtype = str(call.dtype).removeprefix("torch.")
        tensors = [self.tensor(n, dtype, s, call.last) for n, s in zip("xwy", (x, w, y))]
        kind, *names = OPERATIONS[call.kind]
        operation = self.new(kind, [
            *((n, T_DESCRIPTOR, ctypes.c_void_p, [d]) for n, d in zip(names,
                                                                      [convolution, *tensors])),
            (names[4], T_FLOAT, ctypes.c_float, [1.0]), (names[5], T_FLOAT, ctypes.c_float, [0.0])])
        return self.new(GRAPH, [(801, T_DESCRIPTOR, ctypes.c_void_p, [operation])])

    def engines(self, graph, mode):
        heuristics = self.new(HEURISTICS, [
            (201, T_DESCRIPTOR, ctypes.c_void_p, [graph]),
            (200, T_HEURISTICS, ctypes.c_int, [mode]),
            (204, T_DESCRIPTOR, ctypes.c_void_p, [self.gpu])])
        configs = [self.new(CONFIG, [], finish=False) for _ in range(MAX_ENGINES)]
        found = (ctypes.c_void_p * MAX_ENGINES)(*(c.value for c in configs))
        return [ctypes.c_void_p(c) for c in self.get(heuristics, 202, T_DESCRIPTOR, found)]

    def notes(self, config):
        engine = (ctypes.c_void_p * 1)(self.new(ENGINE, [], finish=False).value)
        self.get(config, 300, T_DESCRIPTOR, engine)
        return self.get(ctypes.c_void_p(engine[0]), 1303, T_NOTE, (ctypes.c_int * 10)())

    def workspace(self, call):
        """Bytes of the engine that PyTorch would take."""
        graph = self.graph(call)
        for mode in (0, 2):
            for config in self.engines(graph, mode):
                if ROUNDS_INPUTS in self.notes(config):
                    continue
                try:
                    plan = self.new(PLAN, [(407, T_DESCRIPTOR, ctypes.c_void_p, [self.gpu]),
                                           (401, T_DESCRIPTOR, ctypes.c_void_p, [config])])
                except Refused:
                    continue
                return self.get(plan, 402, T_INT64, (ctypes.c_int64 * 1)())[0]
        raise Refused("no engine")


def strides(shape, last):
    """Of a dense tensor."""
    order = [0, *range(2, len(shape)), 1] if last else list(range(len(shape)))
    found, step = [0] * len(shape), 1
    for axis in reversed(order):
        found[axis] = step
        step *= shape[axis]
    return found


def described():
    """The library of .venv-cuda with an H200; None where it is not installed."""
    paths = glob.glob(LIBRARIES)
    if not paths:
        return None
    try:
        return Cudnn(paths[0], os.path.join(ROOT, "profiles", "h200-device.cudnn"))
    except OSError:
        return None
