"""Sort the first n items of two arrays by the first array, without allocating."""

from __future__ import annotations

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import part_of_kernel

_SMALL = 32


@part_of_kernel
def _deal_out(key: Floats, item: Ints, n: int, spare_key: Floats, spare_item: Ints, count: Ints) -> int:
    """Move keys into n buckets of equal width, and write their ends to ``count``; returns n, or 0 if they are close."""
    lowest = highest = key[0]
    for i in range(n):
        lowest, highest = min(lowest, key[i]), max(highest, key[i])
        count[i] = 0
    if (highest - lowest) / (n - 1) < 1e-300:
        return 0
    scale = (n - 1) / (highest - lowest)  # one product per key: a division takes several times as long
    for i in range(n):
        spare_key[i], spare_item[i] = key[i], item[i]
        count[min(int((key[i] - lowest) * scale), n - 1)] += 1
    begin = 0
    for b in range(n):
        begin, count[b] = begin + count[b], begin
    for i in range(n):
        b = min(int((spare_key[i] - lowest) * scale), n - 1)
        key[count[b]], item[count[b]] = spare_key[i], spare_item[i]
        count[b] += 1
    return n


@part_of_kernel
def _insertion(key: Floats, item: Ints, begin: int, end: int) -> None:
    for i in range(begin + 1, end):
        k, x = key[i], item[i]
        j = i - 1
        while j >= begin and key[j] > k:
            key[j + 1] = key[j]
            item[j + 1] = item[j]
            j -= 1
        key[j + 1] = k
        item[j + 1] = x


@part_of_kernel
def _heap(key: Floats, item: Ints, begin: int, end: int) -> None:
    size = end - begin
    start = size // 2
    while size > 1:
        if start > 0:
            start -= 1
        else:
            size -= 1
            last = begin + size
            key[last], key[begin] = key[begin], key[last]
            item[last], item[begin] = item[begin], item[last]
        root = start
        k, x = key[begin + root], item[begin + root]
        child = 2 * root + 1
        while child < size:
            if child + 1 < size and key[begin + child + 1] > key[begin + child]:
                child += 1
            if key[begin + child] <= k:
                break
            key[begin + root] = key[begin + child]
            item[begin + root] = item[begin + child]
            root = child
            child = 2 * root + 1
        key[begin + root] = k
        item[begin + root] = x


@part_of_kernel
def sort_by_key(key: Floats, item: Ints, n: int, spare_key: Floats, spare_item: Ints, count: Ints) -> None:
    """Sort ``key[:n]`` (finite) ascending, with ``item[:n]``; the other arrays are scratch of length ``n`` or more.

    Few keys are sorted by insertion. Many keys are first moved into n buckets of equal width. Each bucket is then
    sorted: by insertion, or as a heap if it has many keys, which happens if they are unevenly spread.
    """
    if n < 2:
        return
    begin = n - n  # not the literal 0: numba would compile everything a second time for it
    buckets = _deal_out(key, item, n, spare_key, spare_item, count) if n > _SMALL else begin
    if buckets == 0:
        count[0] = n
        buckets += 1
    for b in range(buckets):
        if count[b] - begin > _SMALL:
            _heap(key, item, begin, count[b])
        elif count[b] - begin > 1:
            _insertion(key, item, begin, count[b])
        begin = count[b]
