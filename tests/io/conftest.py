"""What the tests of files ask for."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write bytes or text under a name; give the file's path as text."""

    def write(name, data):
        file = tmp_path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(file)

    return write
