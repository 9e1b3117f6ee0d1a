"""A column like those of pandas and polars, for tests that must not need them."""

import numpy as np


class Column:
    """A dataframe column, with the methods that this package uses (pandas is not a dependency)."""

    def __init__(self, values, dtype=None):
        self._values = np.array(values, dtype=dtype)

    def __len__(self):
        return len(self._values)

    def __array__(self, dtype=None, copy=None):
        return self._values

    def __iter__(self):
        return iter(self._values)

    def to_numpy(self):
        return self._values

    def to_list(self):
        return self._values.tolist()
