"""The functional core: values, decisions and wording, with no clock, I/O, randomness or await.

`decide(state, command)` gives the events that a command brings about, or raises a refusal;
`evolve(state, event)` gives the state after an event; `next_work(state, run)` says what a run's
loop does next. Everything else in placet carries values to these three and writes down what
comes back.
"""
