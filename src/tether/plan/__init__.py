"""What should have been done? The best policy for k and m, or the value for all of them.

May import: influence, and what it may.
"""
