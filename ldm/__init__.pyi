"""The public names and the modules that define them, for type checkers and for `__init__.py`."""

from ldm.agents import Resources as Resources
from ldm.config import Build as Build
from ldm.config import Evaluate as Evaluate
from ldm.config import OptimisePlan as OptimisePlan
from ldm.config import Refine as Refine
from ldm.config import Section as Section
from ldm.envs.formats import Assumed as Assumed
from ldm.episode import Agent as Agent
from ldm.episode import Environment as Environment
from ldm.episode import EnvironmentBase as EnvironmentBase
from ldm.episode import Episode as Episode
from ldm.errors import LdmError as LdmError
from ldm.llm.models import ModelOptions as ModelOptions
from ldm.llm.service import Connection as Connection
from ldm.memory import Memory as Memory
from ldm.memory.growing import GrowingMemory as GrowingMemory
from ldm.memory.recalls import Recalls as Recalls
from ldm.run.building import build_memory as build_memory
from ldm.run.building import read_trajectories as read_trajectories
from ldm.run.building import write_trajectories as write_trajectories
from ldm.run.evaluate import Comparison as Comparison
from ldm.run.evaluate import compare as compare
from ldm.run.evaluate import evaluate as evaluate
from ldm.run.evaluate import evaluate_all as evaluate_all
from ldm.run.grid import Grid as Grid
from ldm.run.plan import OptimisedPlan as OptimisedPlan
from ldm.run.plan import OptimisedPlans as OptimisedPlans
from ldm.run.plan import PlanEvaluation as PlanEvaluation
from ldm.run.plan import PlanGrid as PlanGrid
from ldm.run.plan import PlanScores as PlanScores
from ldm.run.plan import optimize_plan as optimize_plan
from ldm.run.plan import optimize_plans as optimize_plans
from ldm.run.presets import Preset as Preset
from ldm.run.presets import list_presets as list_presets
from ldm.run.presets import preset as preset
from ldm.run.refine import Refined as Refined
from ldm.run.refine import refine as refine
from ldm.run.reproducing import Reproduction as Reproduction
from ldm.run.reproducing import evaluate_preset as evaluate_preset
from ldm.run.results import Report as Report
from ldm.run.resuming import resume as resume
from ldm.run.runtime import Runtime as Runtime
from ldm.types import Card as Card
from ldm.types import Recall as Recall
from ldm.types import StateActionTuple as StateActionTuple
from ldm.types import Step as Step
from ldm.types import Task as Task
from ldm.types import TimeStep as TimeStep
from ldm.types import Trajectory as Trajectory
from ldm.version import __version__ as __version__

__all__: list[str]
_MODULES: dict[str, str]
