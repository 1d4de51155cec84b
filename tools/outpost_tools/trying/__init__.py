"""The commands for trying it, and for what trying needs. No other room imports one of these.

program/   `outpost try`: a program of your own on this machine
simulate/  boards that are simulated
demo/      everything, for half a minute, with disasters
fetch/     programs for a private folder
"""
