"""The command line: translates between people and `placet.Placet`, and never judges.

Here belong commands, what they print (as text and as JSON), how a person is known at a terminal,
and exit codes. What may be decided is asked of the API; nothing here writes to a store. A command
is loaded when it is named, so that answering a request stays quick.
"""
