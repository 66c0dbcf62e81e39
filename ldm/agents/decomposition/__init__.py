"""The division of a task into sub-tasks, and their execution (ADaPT, arXiv 2311.05772, §3.3).

`logic` parses the planner's plans, `controller` carries them out, `handover` passes information
from one sub-task to the next, and `tree` is the record of it all, for runs and for reports.
"""
