"""From one episode to all of them: which are worth a look, which decisions would change, who could not be helped?

A log is cut into batches of episodes in the model's indices (`logs`, `cohort`). Every batch is answered by itself
(`answering`), to one record of arrays (`answers`). The answers are named and counted at the end (`tables`). So a batch
can be answered anywhere, kept on disk, and answered again with the same bytes.
May import: learning, io, and what these may.
"""
