"""Runs compare_data (tests/reference/data.c) and reads what it wrote."""
import os
import subprocess

import numpy as np

TYPES = {"F32": np.float32, "I32": np.int32, "U8": np.uint8}


class Refused(Exception):
    """One sentence, and the exit code."""


class Data:
    def __init__(self, program, work):
        self.program, self.work = os.path.abspath(program), os.path.abspath(work)
        os.makedirs(self.work, exist_ok=True)

    def run(self, path, feeds, **keys):
        """feeds: {name: (type, shape)}. The samples of each, what was said, and the lines about them."""
        out = os.path.join(self.work, "out")
        given = [f"{name}:{kind}:{','.join(map(str, shape))}" for name, (kind, shape) in feeds.items()]
        keys.setdefault("cache", os.path.join(self.work, "cache"))
        keys = {key: value for key, value in keys.items() if value is not None}
        done = subprocess.run([self.program, path, out] + given + [f"{key}={value}" for key, value in keys.items()],
                              capture_output=True, timeout=120)
        said = done.stderr.decode(errors="replace")
        if done.returncode:
            if done.returncode not in (1, 2, 3) or said.count("\n") != 1 or os.path.basename(path) not in said:
                raise AssertionError(f"{path}: exit code {done.returncode}: {said!r}")
            raise Refused(said.strip())
        assert not said, said
        lines = done.stdout.decode().splitlines()
        arrays = {name: np.fromfile(os.path.join(out, name), TYPES[kind]).reshape((-1,) + tuple(shape))
                  for name, (kind, shape) in feeds.items()}
        return arrays, lines[1], lines[2:]

    def refused(self, path, feeds, says, **keys):
        try:
            self.run(path, feeds, **keys)
        except Refused as refusal:
            assert says in str(refusal), f"{path}: said {refusal}, not {says}"
            return
        raise AssertionError(f"{path} should be refused: {says}")
