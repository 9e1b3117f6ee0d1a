"""A process that answers batches: started by `tether.auditing.workers`; questions and answers go through its two pipes.

It ends when its input ends, so that it never outlives the process that started it. It imports nothing of the caller's
program: a script that starts an audit needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import IO, Any

__all__ = ["receive", "send"]

_LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], what: Any) -> None:
    """Write one object."""
    data = pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one object; EOFError if there are no more."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Answer until the input ends: first the model and the question come, then batches."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printed text must not get between the answers
    questions = sys.stdin.buffer
    answer = None
    while True:
        try:
            asked = receive(questions)
        except EOFError:
            return
        except Exception as error:  # something cannot be read here: a class of the caller's own program
            send(answers, error if _is_sendable(error) else RuntimeError(str(error)))
            continue
        try:
            if answer is None:
                from tether.auditing.answering import PreparedQuestion
                from tether.auditing.engine import prepare

                answer = prepare(PreparedQuestion.of(*asked))
                send(answers, None)
            else:
                send(answers, answer(asked))
        except Exception as error:
            send(answers, error if _is_sendable(error) else RuntimeError(f"{type(error).__name__}: {error}"))


def _is_sendable(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


if __name__ == "__main__":
    main()
