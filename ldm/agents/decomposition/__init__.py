"""How agents divide a task into sub-tasks and carry them out (ADaPT, arXiv 2311.05772, §3.3).

`logic` reads the planner's plans, `controller` carries them out, `handover` says what goes from one
sub-task to the next, `tree` is what goes into the record, `findings` what reports make of it.
"""
