"""What are the answers for a whole log? Which episodes are worth a look, which decisions would change?

Every batch of a log (`tether.logs`) is answered by itself (`batched`); the result is one record of arrays
(`answer_arrays`). Indices are replaced by names, and counted, at the end (`tables`). So a batch can be answered
anywhere, kept on disk, and answered again with the same bytes.
May import: explanation, and what it may.
"""
