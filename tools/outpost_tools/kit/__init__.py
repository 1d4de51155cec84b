"""`outpost test` and the pytest fixture `bench`: a user's program in virtual time, through every
power cut. The world itself is `boards/BENCH/virtual/`, which runs under both Pythons.
"""
