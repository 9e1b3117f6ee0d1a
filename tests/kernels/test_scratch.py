"""Scratch arrays: small or large, for few entries or for many."""

import os

import numpy as np
import pytest

from tether._kernels.scratch import scratch_array


@pytest.mark.parametrize("n", [1, 1000, 3_000_000])
@pytest.mark.parametrize("touched", [None, 1, 3_000_000])
def test_it_has_the_shape_and_can_be_written(n, touched):
    array = scratch_array((n, 2), np.int16, touched=touched)
    assert array.shape == (n, 2)
    assert array.dtype == np.int16
    array[n - 1] = (3, 4)
    assert array[n - 1].tolist() == [3, 4]


@pytest.mark.parametrize("n", [10, 8_000_000])
def test_for_few_it_is_zero(n):
    assert not scratch_array(n, np.uint8)[:: max(n // 100, 1)].any()


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_for_many_it_begins_a_cache_line(n):
    assert scratch_array((n, 4), np.float64, touched=n).ctypes.data % 64 == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside threads: the child only writes a byte
def test_a_forked_process_writes_to_its_own():
    array = scratch_array(8_000_000, np.uint8)
    child = os.fork()
    if child == 0:
        array[0] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert array[0] == 0
