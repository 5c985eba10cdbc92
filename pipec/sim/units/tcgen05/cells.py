"""Sets of tensor memory cells, relative to an address."""

from __future__ import annotations

import numpy as np

from pipec.record import record


@record(eq=False)
class CellMap:
    """Cells by lane and column (int64 arrays of one shape), with the ranges they span.

    `rectangle` is set when the map is a full block in row-major order, which can then be sliced instead of gathered.
    """

    lanes: np.ndarray
    columns: np.ndarray
    lane_range: tuple[int, int]
    column_range: tuple[int, int]
    rectangle: bool

    @staticmethod
    def of(lanes: np.ndarray, columns: np.ndarray) -> CellMap:
        """The map with the broadcast of `lanes` and `columns`; an empty one spans nothing."""
        lanes, columns = np.broadcast_arrays(np.asarray(lanes, np.int64), np.asarray(columns, np.int64))
        if not lanes.size:
            return CellMap(lanes, columns, (0, 0), (0, -1), False)
        lane_range, column_range = ((int(part.min()), int(part.max())) for part in (lanes, columns))
        rows, width = (high - low + 1 for low, high in (lane_range, column_range))
        rectangle = (
            lanes.shape == (rows, width)
            and np.array_equal(lanes[:, 0], np.arange(lane_range[0], lane_range[1] + 1))
            and np.array_equal(columns[0], np.arange(column_range[0], column_range[1] + 1))
            and bool((lanes == lanes[:, :1]).all() and (columns == columns[:1]).all())
        )
        return CellMap(lanes, columns, lane_range, column_range, rectangle)

    def select(self, lane: int, column: int) -> tuple[np.ndarray, np.ndarray] | tuple[slice, slice]:
        """Index into a [lanes, columns] array with the map placed at (lane, column)."""
        if not self.rectangle:
            return self.lanes + lane, self.columns + column
        (first_lane, last_lane), (first_column, last_column) = self.lane_range, self.column_range
        return slice(lane + first_lane, lane + last_lane + 1), slice(column + first_column, column + last_column + 1)

    def where(self, keep: np.ndarray) -> CellMap:
        """The cells at the true entries of `keep`, as a 1-D map."""
        return CellMap.of(self.lanes[keep], self.columns[keep])
