# SPDX-License-Identifier: Apache-2.0
"""Totals from topic to topic in driver processes, over as many of them as a test likes."""

import json
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Self

from testkit.answers import Rows, check_rows
from testkit.driver_process import CALL_SECONDS
from testkit.kafka import Broker
from testkit.kafka_clients import Producer, read
from testkit.remote import RemoteQuery
from testkit.waiting import until

Totals = tuple[int, ...]


class KafkaQuery(RemoteQuery):
    """Count and sum of each key of a producer's topic, into a topic of the query's own.

    Batches follow each other by themselves as long as the producer sends. The answer is known
    without Spark's help, but for its log of offsets: that says which records each batch has.
    """

    batches_to_finish = 300  # they are short, and steps wait for copies

    def __init__(self, folder: Path, broker: Broker, producer: Producer, format: int) -> None:
        super().__init__(folder, format=format)
        # The offsets of all batches must stay.
        self.settings["spark.sql.streaming.minBatchesToRetain"] = "100000"
        self._broker, self._producer = broker, producer
        self._topic = broker.create(f"{producer.topic}-totals", 2)

    def begin(self) -> None:
        self.call(
            "start_on_topics",
            kind=self.kind,
            broker=self._broker.address,
            source=self._producer.topic,
            checkpoint=self.root,
            sink=self._topic,
            settings=self.settings,
        )

    def run(self, batches: int = 1) -> Self:
        """Waits until so many more batches are processed. Raises what the query fails with."""
        last = self._newest() + batches

        def is_processed() -> bool:
            self.call("check_runs")
            return self._newest() >= last

        until(is_processed, f"batch {last} is processed", CALL_SECONDS)
        return self

    def settle(self) -> int:
        """Ends the producer, and waits until all that it has sent is processed."""
        self._producer.stop()
        return super().settle()

    @property
    def given(self) -> dict[int, Rows]:
        """The last row of each key as if all were the newest batch's: records do not say."""
        return {self._newest(): [(k, *given[-1]) for k, given in self._given().items()]}

    def answer(self, *, batches: slice = slice(None)) -> Rows:
        last: dict[int, Totals] = {}
        for left in self._left()[batches]:
            last |= left
        return [(k, *totals) for k, totals in last.items()]

    def check(self, keys: int = 1, expected: Rows | None = None) -> None:
        """The batches must have all that was sent, and the sink what each of them leaves.

        For each key the sink must have the totals after each batch that has the key, in their
        order. What a task sent before it died is there twice, one right behind the other.
        """
        check_rows(self.answer(), self._producer.totals())
        super().check(keys, expected)
        left = self._left()
        wrong = []
        for k, given in sorted(self._given().items()):
            once = [totals for totals, _ in groupby(given)]
            in_order = [totals[k] for totals in left if k in totals]
            if once != in_order:
                wrong.append(f"key {k} has {once} instead of {in_order}")
        assert not wrong, f"{len(wrong)} keys were wrong on the way; {wrong[0]}"

    def _given(self) -> dict[int, list[Totals]]:
        """All that the sink has of each key, in its order."""
        given: dict[int, list[Totals]] = defaultdict(list)
        for records in read(self._broker.address, self._topic).values():
            for k, totals in records:
                given[k].append(totals)
        return given

    def _left(self) -> list[dict[int, Totals]]:
        """Of each batch, the totals that it leaves for the keys that it has."""
        source = read(self._broker.address, self._producer.topic)
        totals: dict[int, Totals] = defaultdict(lambda: (0, 0))
        begin = dict.fromkeys(source, 0)
        left = []
        for batch in self.logged("offsets"):
            end = self._end(batch)
            records = [r for p in source for r in source[p][begin[p] : end[p]]]
            for k, (value,) in records:
                n, s = totals[k]
                totals[k] = (n + 1, s + value)
            left.append({k: totals[k] for k, _ in records})
            begin = end
        return left

    def _end(self, batch: int) -> dict[int, int]:
        """The first offset of each partition that is after a batch."""
        offsets = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        by_partition = json.loads(offsets)[self._producer.topic]
        return {int(partition): offset for partition, offset in by_partition.items()}

    def _newest(self) -> int:
        """The newest batch that is processed, whichever driver did; -1 before the first."""
        commits = self.checkpoint / "commits"
        return max(self.logged("commits"), default=-1) if commits.exists() else -1
