"""What every folder stands on: arrays, numbers in words, checks of values, problems collected, files written whole.

Nothing here knows what a model is. Each file has one idea.
May import: errors.
"""
