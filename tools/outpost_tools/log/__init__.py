"""The collectors' log: its files, and the bytes in them.

segments.py         the files of a folder, here or in a bucket; written where it is here
segment_frames.py   the bytes of a file: frames, their checks, reading after damage
"""
