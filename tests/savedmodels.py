"""What the tests of models on disk share: whether two models are the same, and forged directories."""

import json
import zlib

import msgspec
import numpy as np
import pytest

from tether import MDP
from tether.errors import FileError
from tether.model.storage.meta import Meta, write_meta

ARRAYS = ["pair_start", "pair_action", "row_start", "next_state", "probability", "rewards", "terminal"]
AGAIN = "save the model again with MDP.save, or copy its directory again as a whole"


def arrays_of(mdp):
    form = mdp.form
    found = {name: getattr(form, name) for name in ARRAYS if name != "rewards"}
    found |= {"rewards": form.rewards.values, "final_reward": mdp.final_reward}
    return found | {"counts": None if mdp.counts is None else mdp.counts.transitions}


def assert_same(mdp, twin):
    """Bit for bit, and label for label, each of the same type."""
    for name, array in arrays_of(mdp).items():
        other = arrays_of(twin)[name]
        if array is None:
            assert other is None
            continue
        assert type(other) is np.ndarray  # not np.memmap: kernels would be compiled again for it
        assert (other.dtype, other.shape) == (array.dtype, array.shape)
        assert other.tobytes() == array.tobytes()
        assert not other.flags.writeable
    assert (twin.horizon, twin.discount) == (mdp.horizon, mdp.discount)
    assert twin.form.rounding == mdp.form.rounding
    assert twin.rewards.by_entry == mdp.rewards.by_entry
    assert list(map(repr, twin.states)) == list(map(repr, mdp.states))
    assert list(map(repr, twin.actions)) == list(map(repr, mdp.actions))
    assert twin.states == mdp.states
    assert twin.actions == mdp.actions


def labelled(states):
    """A model with given states, each leading to itself."""
    n = len(states)
    return MDP.from_table(states, ["stay"] * n, states, [1.0] * n, states=states)


def twin_of(mdp, folder, **options):
    mdp.save(folder)
    return MDP.load(folder, **options)


def refused(folder, **options):
    with pytest.raises(FileError) as caught:
        MDP.load(folder, **options)
    return caught.value


def forge(folder, name, array):
    """Replace an array by another one, as if that had been saved."""
    np.save(folder / f"{name}.npy", array)
    meta = json.loads((folder / "model.json").read_text())
    meta["arrays"][name] |= {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bytes": (folder / f"{name}.npy").stat().st_size,
        "crc32": zlib.crc32(array.tobytes()),
    }
    write_meta(folder, msgspec.convert(meta, Meta))
