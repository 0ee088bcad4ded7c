"""The coordinator's rounds: look, follow, plan, install, and see whether it was worth it.

    look      at all brokers: what they count, which links are up, which plan is in use; fetch what they have sampled
    follow    let the streams take the new samples into the window
    plan      on Spark, from the window, the subscriptions and the links of now; what is in use is compared too
    judge     a plan that was installed before and has carried enough: it stays, or is taken back
    install   the new plan, if it saves enough; through the pages of any broker

While a broker is away, links of the overlay's own tree are down, or somebody else is installing something, nothing is
planned: the next round will see. Whatever fails ends the round and not the coordinator. Everything it knows is on disk
after each round, so that another process goes on where one was ended. If the streams cannot go on from what is on disk,
the window begins anew, from the samples that brokers still have.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as parquet

from covey.client import admin
from covey.client.admin import Pages
from covey.coordinator.gathering import REPLACED, Gathered, gather, look_at
from covey.coordinator.judging import BEFORE, INSTALLED, Costs, Probation, Verdict, judge, propose
from covey.coordinator.looking import Look, Traffic, counts_of, traffic_between
from covey.coordinator.memory import Memory, lock, write_whole
from covey.coordinator.rounds import Round, keep_round
from covey.coordinator.settings import Settings
from covey.errors import ConfigError, CoveyError
from covey.pipeline.jobs import Outcome, Progress, Request
from covey.pipeline.jobs import plan as compute
from covey.pipeline.memory import bytes_in
from covey.pipeline.stream import KEYS, Streams
from covey.pipeline.stream_state import ailment, begin_anew
from covey.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_USE: Final = (
    "installed.json"  # the plan in use, and the one before it, as files; absent: the overlay's own tree
)
EARLIER: Final = "before.json"

log = logging.getLogger("covey.coordinator")


class Coordinator:
    """One coordinator on its data directory; ConfigError if it cannot be used. `close` it, or use it in `with`."""

    def __init__(
        self, settings: Settings, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        self.settings = settings
        self._on_progress = on_progress
        self._directory = settings.data_dir
        self._lock = lock(self._directory)
        try:
            self.memory = Memory.load(self._directory)
            self._pages = [Pages(url, settings.token, settings.authority) for url in settings.urls]
        except CoveyError:
            self._lock.close()
            raise

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the directory."""
        self._lock.close()

    def run(
        self,
        on_round: Callable[[Round], None],
        *,
        rounds: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Do round after round, so many or for ever."""
        done = 0
        while rounds is None or done < rounds:
            started_s = time.monotonic()
            on_round(self.round())
            done += 1
            if rounds is None or done < rounds:
                sleep(max(0.0, started_s + self.settings.every_s - time.monotonic()))

    def round(self) -> Round:
        """Do one round; what fails in it is told, not raised."""
        memory = self.memory
        memory.rounds += 1
        told = Round(memory.rounds, time.time())
        started_s = time.monotonic()
        try:
            self._round(told)
        except CoveyError as error:
            told.action, told.reason = "failed", str(error)
        except Exception as error:  # whatever it is: nothing that a broker says may end the loop
            log.exception("round %d failed", memory.rounds)
            said = " ".join(str(error).split())
            told.action, told.reason = "failed", f"{type(error).__name__}: {said:.200}"
        told.seconds = round(time.monotonic() - started_s, 3)
        memory.save(self._directory)
        keep_round(self._directory, told)
        return told

    # -- the steps -------------------------------------------------------------------------------------------

    def _round(self, told: Round) -> None:
        settings = self.settings
        self._heal(told)
        found = gather(
            self._pages,
            self._directory,
            self.memory,
            max_skew_s=settings.max_skew_s,
            span_s=settings.windows.span_s,
        )
        look = found.look
        self._note(found, told)
        streams = Streams(self._spark(), self._directory, self.settings.windows)
        self._follow(streams, told)
        reason = self._obstacle(look)
        if reason:
            told.reason = reason
            return
        self._adopt(look)
        told.events = streams.count("events")
        if self._is_too_early(told):
            return
        if told.events < self.settings.least_events:
            told.reason = f"fewer than {self.settings.least_events:,} events are in the window"
            return
        self._write_input(streams, look)
        outcome = self._plan(look)
        told.quarantine(outcome.quarantined)
        costs = Costs.of(outcome.plan)
        told.method, told.trees = outcome.plan.method, len(outcome.plan.trees)
        told.planned, told.installed, told.floor = costs.planned, costs.installed, costs.floor
        self._decide(told, outcome, costs, look)

    def _heal(self, told: Round) -> None:
        """Let the window begin anew if the streams cannot go on from what is on disk."""
        slide_s = self.settings.windows.slide_s
        # Twice, as this clock may have been set back by as much as is nothing to speak of.
        reason = ailment(self._directory, slide_s, time.time() + 2 * self.settings.max_skew_s)
        if reason:
            log.warning("the window begins anew: %s", reason)
            told.problems.append(f"the window begins anew: {reason}")
            self.memory.fetched = {}  # brokers have most of it still
            self.memory.save(self._directory)
            shutil.rmtree(self._directory / "tables", ignore_errors=True)
            begin_anew(self._directory, slide_s)

    def _note(self, found: Gathered, told: Round) -> None:
        look, memory = found.look, self.memory
        told.brokers = len(look.brokers)
        told.away = dict(look.away)
        told.joined, told.left = found.joined, found.left
        told.problems += found.problems
        told.drop(found.dropped)
        told.skew_s = {
            name: round(one.skew_s, 3) for name, one in look.brokers.items() if one.skew_s is not None
        }
        told.subscriptions = sum(one.subscriptions for one in look.brokers.values())
        told.entries = sum(one.entries for one in look.brokers.values())
        counts = counts_of(look)
        since = traffic_between(memory.counts, counts)
        memory.counts = {**memory.counts, **counts}
        memory.traffic += since
        told.measured = since.per_event

    def _follow(self, streams: Streams, told: Round) -> None:
        present = [file for table in KEYS for file in (streams.inbox / table).glob("*.parquet")]
        told.sampled = streams.advance()
        told.rates = streams.latest_rates()
        for file in present:
            file.unlink()  # the streams have taken it
        streams.forget()
        told.drop(streams.dropped)

    def _obstacle(self, look: Look) -> str:
        """Return why nothing can be planned now, "" if it can."""
        if look.away:
            return f"away: {'; '.join(look.away.values())}"
        strangers = look.strangers()
        if strangers:
            return f"the admin pages of {', '.join(sorted(strangers)[:5])} are not named"
        if look.is_installing:
            return "a plan is on its way in or out"
        return "" if look.is_whole() else "the overlay's own tree is not whole"

    def _adopt(self, look: Look) -> None:
        """See which plan is in use: somebody else may have installed another one, or taken ours back."""
        file = self._in_use(look)
        digest = blake2b(file, digest_size=16).hexdigest() if file else ""
        if digest != self.memory.installed or (file and not (self._directory / IN_USE).exists()):
            self._keep(IN_USE, file)
            self._keep(EARLIER, b"")
            self.memory.installed, self.memory.probation = digest, None
            self.memory.traffic = Traffic()

    def _in_use(self, look: Look) -> bytes:
        for pages in self._pages:
            if any(one.url == pages.url for one in look.brokers.values()):
                return pages.get_bytes("/planz", file=1)
        return b""

    def _write_input(self, streams: Streams, look: Look) -> None:
        """Write what `pipeline.jobs.plan` reads."""
        target = self._directory / "input"
        links = sorted(look.links())
        topology = pa.table(
            {"a": [a for a, _ in links], "b": [b for _, b in links], "cost": [1.0] * len(links)}
        )
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        parquet.write_table(topology, target / "topology.parquet")
        for table in KEYS:
            window = streams.window(table)
            if window is not None:
                window.write.parquet(str((target / table).resolve()))
        for table in REPLACED:
            files = list((self._directory / "tables" / table).glob("*.parquet"))
            if files:
                shutil.copytree(self._directory / "tables" / table, target / table)

    def _plan(self, look: Look) -> Outcome:
        known = {INSTALLED: self._file(IN_USE) or look.overlay_plan().encode()}
        if self.memory.probation is not None:
            known[BEFORE] = self._file(EARLIER) or look.overlay_plan().encode()
        settings = self.settings
        request = Request(
            self._directory / "input",
            self._directory / "plan",
            method=settings.method,
            seed=settings.seed,
            known=known,
            log=self._directory / "spark.log",
        )
        return compute(request, self._on_progress, spark=self._spark())

    def _is_too_early(self, told: Round) -> bool:
        """Whether a plan is on probation and has not carried enough to be judged: nothing is planned until then."""
        memory, enough = self.memory, self.settings.probation_events
        seen = memory.traffic.published
        if memory.probation is None or seen >= enough:
            return False
        told.action, told.predicted_saving = "probation", memory.probation.predicted
        told.reason = f"it has carried {seen:,} events, and is judged from {enough:,} on"
        return True

    def _decide(self, told: Round, outcome: Outcome, costs: Costs, look: Look) -> None:
        memory, settings = self.memory, self.settings
        if memory.probation is not None:
            verdict = judge(memory.probation, costs, memory.traffic, settings.tolerance)
            self._tell(told, verdict)
            if verdict.action == "take back":
                self._take_back()
                return
            if verdict.action == "confirm":
                memory.probation, memory.caution = None, 0
            return
        verdict = propose(costs, settings.threshold, memory.caution)
        self._tell(told, verdict)
        if verdict.action != "install":
            return
        if settings.dry_run or look.is_settling:
            told.action = "would install" if settings.dry_run else "wait"
            return
        self._install(outcome.plan, verdict, costs)

    def _tell(self, told: Round, verdict: Verdict) -> None:
        told.action, told.reason = verdict.action, verdict.reason
        told.predicted_saving, told.measured_saving = verdict.predicted, verdict.measured

    def _install(self, plan: Plan, verdict: Verdict, costs: Costs) -> None:
        memory = self.memory
        pages = self._pages[0]
        file = plan.encode()
        # All of it is on disk before the network is asked: whoever is ended in between finds the plan on probation.
        # If it does not come into use, the next look says so (`_adopt`).
        self._keep(EARLIER, self._file(IN_USE))
        self._keep(IN_USE, file)
        memory.probation = Probation(verdict.predicted or 0.0, costs.installed, memory.traffic.per_event)
        memory.installed, memory.at = blake2b(file, digest_size=16).hexdigest(), pages.url
        memory.traffic = Traffic()
        memory.save(self._directory)
        admin.install_plan(pages, file, self.settings.install_wait_s)
        self._count_anew()

    def _take_back(self) -> None:
        memory = self.memory
        pages = next((one for one in self._pages if one.url == memory.at), self._pages[0])
        earlier = self._file(EARLIER)
        try:
            admin.roll_back_plan(pages, self.settings.install_wait_s)
        except CoveyError:  # the plan before is retired by now, or the broker was started again
            admin.install_plan(pages, earlier, self.settings.install_wait_s)
        self._keep(IN_USE, earlier)
        memory.installed = blake2b(earlier, digest_size=16).hexdigest() if earlier else ""
        memory.probation = None
        memory.caution += 1
        self._count_anew()

    def _count_anew(self) -> None:
        """From now on traffic is that of another plan."""
        self.memory.counts = {**self.memory.counts, **counts_of(look_at(self._pages))}
        self.memory.traffic = Traffic()

    # -- files -----------------------------------------------------------------------------------------------

    def _file(self, name: str) -> bytes:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConfigError(f"{self._directory / name} cannot be read: {error.strerror or error}") from None

    def _keep(self, name: str, data: bytes) -> None:
        if data:
            write_whole(self._directory / name, data)
        else:
            (self._directory / name).unlink(missing_ok=True)

    def _spark(self) -> SparkSession:
        from covey.pipeline.session import session

        settings = self.settings
        return session(
            settings.master,
            self._directory / "spark.log",
            driver_memory=settings.driver_memory,
            conf=settings.conf,
            inputs=(bytes_in(self._directory / "tables"), bytes_in(self._directory / "store")),
        )
