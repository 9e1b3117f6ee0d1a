"""What are the answers for a whole log? Which episodes are worth a look, which decisions would change?

A log is cut into batches of episodes in the model's indices (`logs`, `cohort`). Every batch is answered by itself
(`answering`); the result is one record of arrays (`answers`). Indices are replaced by names, and counted, at the end
(`tables`). So a batch can be answered anywhere, kept on disk, and answered again with the same bytes.
May import: learning, io, and what these may.
"""
