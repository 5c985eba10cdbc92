"""The operations of the language, one row each: who may call it, what it waits for and signals, its effect on a stage.

The names are those of the pipeline types' own pages (S0 to S4). The reference documentation prints this table.
"""

from pipec.sema.language.free import FREE_ROWS
from pipec.sema.language.operation import Operation, Receiver
from pipec.sema.language.pipelines import PIPELINES
from pipec.sema.language.role_pipelines import ROLE_PIPELINES
from pipec.sema.language.stages import EPILOGUE_STAGES, STAGES
from pipec.sema.language.stepping import STEPPING, STEPPING_FREE

OPERATIONS: tuple[Operation, ...] = PIPELINES + STEPPING + STAGES + ROLE_PIPELINES + EPILOGUE_STAGES + FREE_ROWS + STEPPING_FREE

MEMBERS: dict[Receiver, dict[str, Operation]] = {}
for _row in OPERATIONS:
    for _receiver in _row.receivers:
        MEMBERS.setdefault(_receiver, {})[_row.name] = _row

FREE: dict[str, Operation] = MEMBERS[""]
