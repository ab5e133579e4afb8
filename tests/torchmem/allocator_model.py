"""PyTorch's CUDA caching allocator for one stream, written from a description of it and not from src/torchmem.

Allocator(settings, capacity, total).malloc(bytes) returns a block, .free(block) takes it back; `events` is what PyTorch would record.
"""
import bisect
import math

MIB = 1 << 20
DEFAULTS = {"max_split_size_mb": math.inf, "max_non_split_rounding_mb": 20, "large_segment_size_mb": 20, "garbage_collection_threshold": 0.0,
            "per_process_memory_fraction": 1.0, "expandable_segments": False, "roundup_power2_divisions": [0] * 16}


class OutOfMemory(Exception):
    pass


class Block:
    def __init__(self, segment, start, size, mapped=True):
        self.segment, self.start, self.size, self.mapped = segment, start, size, mapped
        self.free, self.before, self.after, self.freed_at, self.asked = True, None, None, 0, 0

    def link(self, before, after):
        self.before, self.after = before, after
        if before:
            before.after = self
        else:
            self.segment.first = self
        if after:
            after.before = self

    def order(self):
        oldest = self.segment.ordinal if self.segment.oldest_first else 0
        return self.size, oldest, self.start

    def whole(self):
        return not self.before and not self.after


class Segment:
    oldest_first = False        # as from PyTorch 2.13: of equal blocks that of the oldest segment is taken

    def __init__(self, ordinal, base, size, small, page=0):
        self.ordinal, self.base, self.size, self.small, self.page = ordinal, base, size, small, page
        self.first = Block(self, base, size, not page)

    def blocks(self):
        block = self.first
        while block:
            yield block
            block = block.after


def divisions(text):
    if not text.startswith("["):
        return [int(text)] * 16
    found, last = [0] * 16, None
    for entry in text[1:-1].split(","):
        bound, n = entry.split(":")
        if bound == ">":
            found[last + 1:] = [int(n)] * (15 - last)
            continue
        at = min(15, int(bound).bit_length() - 1)
        found[0 if last is None else at:at + 1] = [int(n)] * (at + 1 if last is None else 1)
        last = at
    return found


def parsed(text):
    conf, depth, start = dict(DEFAULTS), 0, 0
    for i, c in enumerate(text + ","):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0 and i > start:
            key, value = text[start:i].split(":", 1)
            start = i + 1
            of = {"expandable_segments": lambda v: v == "True", "roundup_power2_divisions": divisions,
                  "garbage_collection_threshold": float, "per_process_memory_fraction": float}
            conf[key] = of.get(key, int)(value)
    return conf


def up(size, step):
    return -(-size // step) * step


class Allocator:
    def __init__(self, settings="", capacity=0, total=0, bases=None):
        """bases: addresses of new segments; by default each lies above all before."""
        self.bases = iter(bases or ())
        self.conf, self.capacity, self.total = parsed(settings), capacity or math.inf, total
        fraction = self.conf["per_process_memory_fraction"]
        self.cap = fraction * total if total and fraction < 1 else math.inf
        self.split_limit = self.conf["max_split_size_mb"] * MIB
        self.large = self.conf["large_segment_size_mb"] * MIB
        self.cached = {True: [], False: []}     # by pool: free blocks by size and address
        self.searches = {True: 0, False: 0}
        self.segments, self.count, self.top = [], 0, 1 << 40
        self.allocated = self.reserved = 0
        self.events = []

    def record(self, action, address, size):
        self.events.append((action, address, size))

    def put(self, block):
        bisect.insort(self.cached[block.segment.small], block, key=Block.order)

    def take(self, block):
        cached = self.cached[block.segment.small]
        del cached[bisect.bisect_left(cached, block.order(), key=Block.order)]

    def rounded(self, size):
        power = max(size, 512).bit_length() - 1
        n = self.conf["roundup_power2_divisions"][min(15, max(0, power - 20))]
        if size < 512 or n < 2 or size <= 512 * n:
            return up(max(size, 1), 512)
        return up(size, (1 << power) // n)

    # ---- free blocks ----

    def best(self, size, small):
        cached = self.cached[small]
        self.searches[small] += 1
        i = bisect.bisect_left(cached, (size, 0, 0), key=Block.order)
        if i == len(cached):
            return None
        if self.conf["expandable_segments"]:
            while i + 1 < len(cached) and self.reach(cached[i + 1]) < self.reach(cached[i]):
                i += 1
        found = cached[i].size
        if (size < self.split_limit <= found) or \
                (size >= self.split_limit and found >= size + self.conf["max_non_split_rounding_mb"] * MIB):
            return None
        return cached[i]

    def reach(self, block):
        """Its size with the pages that may be added behind it."""
        after = block.after
        return block.size + (after.size if after and not after.mapped else 0)

    # ---- segments ----

    def fits(self, size):
        return self.reserved + size <= min(self.capacity, self.cap)

    def new_block(self, size, small):
        bytes = 2 * MIB if small else self.large if size < 10 * MIB else up(size, 2 * MIB)
        if self.reserved + bytes > self.cap:
            return None
        if self.conf["expandable_segments"]:
            return self.expand(size, small)
        if not self.fits(bytes):
            return None
        segment = self.add_segment(bytes, small)
        self.reserved += bytes
        self.record("segment_alloc", segment.base, bytes)
        return segment.first

    def add_segment(self, bytes, small, page=0):
        segment = Segment(self.count, next(self.bases, self.top), bytes, small, page)
        self.count += 1
        self.top = max(self.top, segment.base + up(bytes, 2 * MIB) + 2 * MIB)
        self.segments.append(segment)
        return segment

    def release(self, segment):
        self.take(segment.first)
        self.segments.remove(segment)
        self.reserved -= segment.size
        self.record("segment_free", segment.base, segment.size)

    def empty_cache(self):
        for small in (False, True):
            for block in list(self.cached[small]):
                if not block.segment.page and block.whole():
                    self.release(block.segment)
            for block in list(self.cached[small]):
                if block.segment.page:
                    self.unmap(block)

    def release_oversize(self, size, small):
        """Was enough released?"""
        if self.split_limit == math.inf:
            return False
        wanted, held = max(size, self.split_limit), self.cached[small]
        i = bisect.bisect_left(held, (wanted, 0, 0), key=Block.order)
        if i < len(held):
            if not held[i].segment.page:
                self.release(held[i].segment)
                return True
        for block in held[::-1]:
            if wanted <= 0 or block.size < self.split_limit:
                break
            if not block.segment.page:
                wanted -= block.size
                self.release(block.segment)
        return wanted <= 0

    def collect(self):
        goal = self.reserved - int(self.conf["garbage_collection_threshold"] * self.cap)
        old = [b for b in self.cached[False] if b.whole() and not b.segment.page]
        while goal > 0 and old:
            ages = [self.searches[False] - b.freed_at for b in old]
            average = sum(ages) / len(ages)
            for block in [b for b, age in zip(old, ages) if age >= average]:
                goal -= block.size
                old.remove(block)
                self.release(block.segment)

    # ---- ranges of addresses that grow ----

    def expand(self, size, small):
        page = 2 * MIB if small else self.large
        start = self.room(size, small)
        if start is None:
            bytes = up((self.total or 1 << 40) * 9 // 8, page)
            if bytes < size:
                return None
            start = self.add_segment(bytes, small, page).first
        while not start.mapped or start.size < size:
            hole = start.after if start.mapped else start
            missing = size - start.size if start.mapped else size
            bytes = up(min(missing, hole.size), page)
            if not self.fits(bytes):
                return None
            start = self.map(hole, bytes)
        return start

    def room(self, size, small):
        """Where free blocks and holes offer the bytes, at the lowest hole that does."""
        for segment in self.segments:
            if not segment.page or segment.small != small:
                continue
            for hole in segment.blocks():
                if hole.mapped:
                    continue
                start = hole.before if hole.before and hole.before.free else hole
                block, bytes = start, 0
                while block and block.free and bytes < size:
                    bytes, block = bytes + block.size, block.after
                if bytes >= size:
                    return start
        return None

    def map(self, hole, bytes):
        self.reserved += bytes
        self.record("segment_map", hole.start, bytes)
        if bytes < hole.size:
            Block(hole.segment, hole.start + bytes, hole.size - bytes, False).link(hole, hole.after)
            hole.size = bytes
        hole.mapped = True
        return self.merged(hole)

    def unmap(self, block):
        segment = block.segment
        start = segment.base + up(block.start - segment.base, segment.page)
        end = segment.base + (block.start + block.size - segment.base) // segment.page * segment.page
        if start >= end:
            return
        self.take(block)
        if start > block.start:
            rest = Block(segment, block.start, start - block.start)
            rest.link(block.before, block)
            self.put(rest)
        if end < block.start + block.size:
            rest = Block(segment, end, block.start + block.size - end)
            rest.link(block, block.after)
            self.put(rest)
        block.start, block.size, block.mapped = start, end - start, False
        self.reserved -= end - start
        self.record("segment_unmap", start, end - start)
        self.join(block)
        if segment.first.whole():
            self.segments.remove(segment)

    # ---- requests ----

    def join(self, block):
        """With its free neighbours of the same kind; returns the one block."""
        for near in (block.before, block.after):
            if not near or not near.free or near.mapped != block.mapped:
                continue
            if near.mapped:
                self.take(near)
            low, high = (near, block) if near is block.before else (block, near)
            block.start, block.size = low.start, low.size + high.size
            block.link(low.before, high.after)
        return block

    def merged(self, block):
        block.free = True
        self.join(block)
        block.freed_at = self.searches[block.segment.small]
        self.put(block)
        return block

    def malloc(self, asked):
        size = self.rounded(asked)
        small = size <= MIB
        block = self.best(size, small) or self.from_driver(size, small)
        if not block:
            raise OutOfMemory
        if block in self.cached[small]:
            self.take(block)
        rest = block.size - size
        if rest >= 512 if small or self.conf["expandable_segments"] else size < self.split_limit and rest > MIB:
            more = Block(block.segment, block.start + size, rest)
            more.link(block, block.after)
            more.freed_at = self.searches[small]
            block.size = size
            self.put(more)
        block.free, block.asked = False, asked
        self.allocated += block.size
        self.record("alloc", block.start, asked)
        return block

    def from_driver(self, size, small):
        if self.cap < math.inf and self.conf["garbage_collection_threshold"]:
            self.collect()
        found = self.new_block(size, small)
        if not found and self.release_oversize(size, small):
            found = self.new_block(size, small)
        if not found:
            self.empty_cache()
            found = self.new_block(size, small)
        return found

    def free(self, block):
        self.allocated -= block.size
        self.record("free_requested", block.start, block.asked)
        self.record("free_completed", block.start, block.asked)
        block.asked = 0
        self.merged(block)
