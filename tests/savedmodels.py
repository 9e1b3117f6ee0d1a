"""What the tests of models on disk share: whether two models are the same, and a second reader and writer of files.

`read_file` and `write_file` follow the description of safetensors (8 bytes with the length of the header, the header,
the arrays) and know nothing of `tether.model.storage` but where its checksums are.
"""

import hashlib
import json
import mmap
import struct
import zlib

import numpy as np
import pytest

from tether import MDP
from tether.errors import FileError

ARRAYS = ["pair_start", "pair_action", "row_start", "next_state", "probability", "rewards", "terminal"]
AGAIN = "save the model again with MDP.save, or copy the file again"
DAMAGED = f"the file is damaged or cut off: its checksum does not fit; {AGAIN}"
TYPES = {"F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


def arrays_of(mdp):
    form, counts = mdp.form, mdp.counts
    found = {name: getattr(form, name) for name in ARRAYS if name != "rewards"}
    found |= {"rewards": form.rewards.values, "final_reward": mdp.final_reward}
    found |= {"counts": counts and counts.transitions, "dropped": counts and counts.dropped}
    return found | {f"label {name}": states for name, states in mdp.label_sets.items()}


def assert_same(mdp, twin):
    """Bit for bit, and name for name, each of the same type."""
    assert list(arrays_of(mdp)) == list(arrays_of(twin))
    for name, array in arrays_of(mdp).items():
        other = arrays_of(twin)[name]
        if array is None:
            assert other is None
            continue
        assert type(other) is np.ndarray  # not np.memmap: kernels would be compiled again for it
        assert (other.dtype, other.shape) == (array.dtype, array.shape)
        assert other.tobytes() == array.tobytes()
        assert not other.flags.writeable
        assert other.flags.aligned
    assert (twin.horizon, twin.discount) == (mdp.horizon, mdp.discount)
    assert twin.form.rounding == mdp.form.rounding
    assert twin.rewards.by_entry == mdp.rewards.by_entry
    if mdp.counts is not None:
        assert numbers_of(twin.counts) == numbers_of(mdp.counts)
    assert list(map(repr, twin.states)) == list(map(repr, mdp.states))
    assert list(map(repr, twin.actions)) == list(map(repr, mdp.actions))
    assert twin.states == mdp.states
    assert twin.actions == mdp.actions


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap) or (isinstance(array, memoryview) and isinstance(array.obj, mmap.mmap))


def numbers_of(counts):
    names = ["prior", "episodes", "steps", "unrecorded", "minimum", "end", "empty_rewards", "empty", "unplaced"]
    return [getattr(counts, name) for name in names]


def labelled(states):
    """A model with given states, each leading to itself."""
    n = len(states)
    return MDP.from_table(states, ["stay"] * n, states, [1.0] * n, states=states)


def twin_of(mdp, file):
    mdp.save(file)
    return MDP.load(file)


def refused(file):
    with pytest.raises(FileError) as caught:
        MDP.load(file)
    return caught.value


def read_file(file):
    """Metadata, description of the model, and arrays."""
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__")
    arrays, data = {}, content[8 + length :]
    for name, one in header.items():
        low, high = one["data_offsets"]
        arrays[name] = np.frombuffer(data[low:high], TYPES[one["dtype"]]).reshape(one["shape"])
    assert high == len(data)
    assert arrays.pop("checksum").tobytes() == hashlib.sha256(content[: 8 + length]).digest()
    return metadata, json.loads(metadata.pop("model")), arrays


def write_file(file, metadata, model, arrays):
    """Write what `read_file` found, or something crafted: all checksums fit."""
    model = model | {"crc32": {name: zlib.crc32(array.tobytes()) for name, array in arrays.items()}}
    header, end, codes = {"__metadata__": metadata | {"model": json.dumps(model)}}, 0, {v: k for k, v in TYPES.items()}
    for name, array in [*arrays.items(), ("checksum", np.zeros(32, "u1"))]:
        offsets = end, end + array.nbytes
        header[name] = {"dtype": codes[array.dtype.str], "shape": array.shape, "data_offsets": offsets}
        end = offsets[1]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    parts = [head, *(array.tobytes() for array in arrays.values()), hashlib.sha256(head).digest()]
    file.write_bytes(b"".join(parts))


def forge(file, name=None, array=None, **changes):
    """Replace an array, or parts of the description, as if that had been saved."""
    metadata, model, arrays = read_file(file)
    if name is not None:
        arrays[name] = array
    write_file(file, metadata, model | changes, arrays)
