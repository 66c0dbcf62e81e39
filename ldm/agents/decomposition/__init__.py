"""The division of a task into sub-tasks, and their execution (ADaPT, arXiv 2311.05772, §3.3).

`logic` parses the planner's plans, `controller` carries them out, passes information from one
sub-task to the next, and records the tree of it all.
"""
