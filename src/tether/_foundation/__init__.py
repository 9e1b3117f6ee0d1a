"""What every folder uses: arrays, numbers in words, checks of values, the collector of problems, files written whole.

Nothing here knows what a model is. Each file has one idea.
May import: errors.
"""
