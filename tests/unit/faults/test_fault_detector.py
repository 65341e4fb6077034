"""One incident with many lines is one fault; context decides as much as words."""

from __future__ import annotations

import pytest

from ddops.agent.faults import Change, Detector, Scope
from ddops.agent.journal import Entry

IMA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
SIGQUIT = "Received sigquit from a child process. It usually means the child failed."
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=812, name=python3, Ch 0000000a"


def said(message: str, seconds: float = 1, **fields: str) -> Entry:
    entry = Entry(message, int(seconds * 1e6), f"c{seconds}", 42, "sglang", "stdout", "sglang.service")
    return entry._replace(**fields)  # type: ignore[arg-type]


def systemd(message: str, unit: str = "sglang.service") -> Entry:
    return said(message, identifier="systemd", transport="journal", unit="init.scope", about=unit)


def kernel(message: str) -> Entry:
    return said(message, identifier="kernel", transport="kernel", unit="")


def watch(phase: str = "trial", **scope: frozenset[str]) -> Detector:
    return Detector(phase, Scope(units=frozenset({"sglang.service"}), **scope))  # type: ignore[arg-type]


def kinds(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(c.kind, c.incident.rule.name, c.incident.action) for c in changes]


def test_eight_ranks_and_their_parent_are_one_incident() -> None:
    detector = watch()
    first = detector.feed(said(f"[2026-03-01 10:00:00 TP5] {IMA}", 10))
    for rank in range(8):
        detector.feed(said(f"[2026-03-01 10:00:00 TP{rank}] Scheduler hit an exception: Traceback", 10 + rank / 10))
        detector.feed(said(f"[2026-03-01 10:00:00 TP{rank}] {IMA}", 10 + rank / 10))
    detector.feed(said(SIGQUIT, 12))
    detector.feed(kernel(XID.format(31)))
    detector.feed(systemd("sglang.service: Main process exited, code=killed, status=9/KILL"))
    assert kinds(first) == [("opened", "illegal-memory-access", "rollback")]
    assert len(detector.incidents) == 1
    record = detector.incidents[0].record()
    assert record["class"] == "cuda_illegal_memory_access"
    assert record["first"]["line"].endswith(IMA)
    assert record["first"]["time_us"] == 10_000_000
    assert record["count"] == 20
    assert record["ranks"] == [f"TP{rank}" for rank in range(8)]
    assert record["gpus"] == ["0000:3b:00"]
    assert record["xids"] == [31]


def test_the_action_does_not_wait_and_the_cause_is_told_when_it_comes() -> None:
    detector = watch("promoted")
    assert kinds(detector.feed(said(SIGQUIT))) == [("opened", "sigquit", "restart")]
    assert kinds(detector.feed(said("[TP0] Scheduler hit an exception: Traceback"))) == [
        ("renamed", "scheduler-exception", "restart")
    ]
    leak = said("ValueError: token_to_kv_pool_allocator memory leak detected! available_size=1", 3)
    assert kinds(detector.feed(leak)) == [("renamed", "kv-pool-leak", "restart")]
    assert kinds(detector.feed(said(SIGQUIT))) == [("grown", "kv-pool-leak", "restart")]
    assert detector.incidents[0].first.time_us == 3_000_000


def test_hardware_explains_what_the_engine_said() -> None:
    detector = watch()
    detector.feed(said("RuntimeError: CUDA error: unspecified launch failure"))
    assert kinds(detector.feed(kernel("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."))) == [
        ("renamed", "xid-79", "page")
    ]


def test_a_fault_long_after_another_is_another() -> None:
    detector = watch()
    detector.feed(said(IMA, 10))
    detector.feed(said(IMA, 10 + 3600))
    assert len(detector.incidents) == 2


def test_a_fault_of_the_next_invocation_is_another() -> None:
    detector = watch()
    detector.feed(said(IMA, 10, invocation="a" * 32))
    detector.feed(said("loading", 11, invocation="b" * 32))
    detector.feed(said(IMA, 12, invocation="b" * 32))
    assert [incident.invocation[0] for incident in detector.incidents] == ["a", "b"]


def test_other_invocations_other_units_and_other_users_words_are_not_ours() -> None:
    detector = Detector("trial", Scope(frozenset({"sglang.service"}), invocation="b" * 32))
    for entry in (
        said(IMA, invocation="a" * 32),
        said(IMA, unit="train.service"),
        systemd("train.service: Main process exited, code=killed, status=9/KILL", "train.service"),
        systemd("system.slice: A process of this unit has been killed by the OOM killer.", "system.slice"),
        said(f"Receive: obj=GenerateReqInput(text='{IMA}', stream=True)"),
        said(f"Received request cmpl-1: prompt: '{IMA}', params: SamplingParams(n=1)"),
    ):
        assert detector.feed(entry) == [], entry
    assert kinds(detector.feed(said(IMA, invocation="b" * 32)))[0][0] == "opened"


def test_what_a_user_is_quoted_with_does_not_hide_what_stands_before() -> None:
    assert watch().feed(said(f"{IMA}; the request was text='hello'"))


def test_an_engine_that_prints_systemds_words_is_not_systemd() -> None:
    assert watch().feed(said("sglang.service: Failed with result 'oom-kill'.")) == []


def test_another_process_and_another_gpu_are_not_ours() -> None:
    detector = Detector("trial", Scope(pids=frozenset({4000}), gpus=frozenset({"0000:3b:00"})))
    assert detector.feed(kernel(XID.format(31))) == []
    assert detector.feed(kernel("NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.")) == []
    assert detector.feed(kernel(XID.format(31).replace("812", "4000")))
    assert detector.feed(kernel("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."))


def test_a_stop_that_was_asked_for_is_no_fault() -> None:
    ends = [
        said(SIGQUIT),
        systemd("sglang.service: Main process exited, code=killed, status=9/KILL"),
        systemd("sglang.service: Failed with result 'signal'."),
    ]
    for begin in (
        systemd("Stopping sglang.service - SGLang..."),
        said("SIGTERM received. signum=15 frame=None. Draining requests and shutting down..."),
    ):
        detector = watch()
        detector.feed(begin)
        assert [change for entry in ends for change in detector.feed(entry)] == []
        assert detector.feed(said(IMA)), "an illegal access while it drains is one all the same"
    stopping = watch("stopping")
    assert [change for entry in ends for change in stopping.feed(entry)] == []
    late = systemd("sglang.service: State 'stop-sigterm' timed out. Killing.")
    assert kinds(stopping.feed(late)) == [("opened", "stop-timeout", "page")]


def test_after_the_next_start_an_exit_is_a_fault_again() -> None:
    detector = watch()
    detector.feed(systemd("Stopping sglang.service - SGLang..."))
    detector.feed(systemd("Started sglang.service - SGLang."))
    assert detector.feed(systemd("sglang.service: Main process exited, code=exited, status=1/FAILURE"))


def test_a_health_check_that_is_late_once_is_a_busy_engine() -> None:
    late = "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds."
    detector = watch()
    decode = "Decode batch, #running-req: 9, #token: 9, token usage: 0.10, cuda graph: True, #queue-req: 3"
    for second in range(9):
        assert detector.feed(said(late, 20 * second)) == []
        if second % 2:
            detector.feed(said(decode, 20 * second + 1))
    changes = [change for second in range(3) for change in detector.feed(said(late, 1000 + 20 * second))]
    assert kinds(changes) == [("opened", "health-check-late", "rollback")]
    assert watch("starting").feed(said(late + " tic start time: 10:10:00. last_heartbeat time: 10:00:00")) == []


def test_a_soft_watchdog_takes_back_what_its_dump_looked_like() -> None:
    detector = watch()
    detector.feed(said("[2026-03-01 10:00:00 TP0] Scheduler debug info:"))
    changes = detector.feed(said("Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)"))
    assert [change.kind for change in changes] == ["withdrawn"]
    assert detector.incidents == []


def test_a_server_that_answers_again_takes_its_silence_back() -> None:
    detector = watch()
    assert detector.feed(kernel("nfs: server store not responding, still trying"))
    assert [c.kind for c in detector.feed(kernel("nfs: server store OK"))] == ["withdrawn"]


def test_a_gap_in_the_journal_stands_beside_the_fault() -> None:
    detector = watch()
    gap = said("Suppressed 812 messages from sglang.service", identifier="systemd-journald", transport="driver",
               unit="systemd-journald.service", about="sglang.service")  # fmt: skip
    assert kinds(detector.feed(gap)) == [("opened", "journal-suppressed", "page")]
    assert kinds(detector.feed(said(IMA))) == [("opened", "illegal-memory-access", "rollback")]
    other = gap._replace(message="Suppressed 812 messages from cron.service", about="cron.service")
    assert watch().feed(other) == []


def test_a_signal_is_an_event_like_a_line() -> None:
    detector = watch("promoted")
    assert kinds(detector.signal("scheduler-gone", "sglang::scheduler_TP1 is gone")) == [
        ("opened", "scheduler-gone", "restart")
    ]
    assert detector.incidents[0].why == "sglang::scheduler_TP1 is gone"
    assert watch("stopping").signal("engine-ended", "gone") == []


NGRAM = said("[2026-03-01 10:00:00] server_args=ServerArgs(model_path='/m', speculative_algorithm='NGRAM', tp_size=8)")


def decode(length: float, running: int = 2, graph: bool = True, rank: str = "TP0", more: str = "") -> Entry:
    return said(
        f"[2026-03-01 10:00:00 {rank}] Decode batch, #running-req: {running}, #token: 9, token usage: 0.10, "
        f"accept len: {length:.2f}, accept rate: 0.00, {more}cuda graph: {graph}, "
        "gen throughput (token/s): 9.0, #queue-req: 0"
    )


def prefill(new: int = 1, rank: str = "TP0") -> Entry:
    return said(
        f"[2026-03-01 10:00:00 {rank}] Prefill batch, #new-seq: {new}, #new-token: 512, #cached-token: 0, "
        "token usage: 0.10, #running-req: 0, #queue-req: 0, cuda graph: False, input throughput (token/s): 9.0"
    )


def requests(number: int, length: float, lines: int = 5) -> list[Entry]:
    """Requests one after the other, with so many decode lines each."""
    return [prefill(), *[decode(length, 1)] * lines] * number


def collapses(*lines: Entry, phase: str = "trial") -> list[str]:
    """Returns why, once for each time that acceptance collapsed."""
    detector = Detector(phase)
    changes = [change for line in lines for change in detector.feed(line)]
    assert all(change.incident.rule.name == "accept-collapse" for change in changes)
    return [change.incident.why for change in changes]


def test_acceptance_collapses_over_five_lines_and_never_on_fewer() -> None:
    good, bad = decode(2.9), decode(1.0)
    assert collapses(good, *[bad] * 5)
    assert not collapses(good, *[bad] * 4, good, *[bad] * 4)
    assert collapses(*[bad] * 5), "it never was above"
    assert not collapses(decode(1.2), *[bad] * 9), "it was no better before"
    assert not collapses(*[decode(1.0, running=48)] * 9), "adaptive speculation is off at a high batch"
    assert not collapses(*[decode(1.0, running=0)] * 9)
    assert not collapses(*[decode(1.0, graph=False)] * 9)
    assert not collapses(good, *[decode(1.0, more="cap len: 1.00, ")] * 9), "no draft was asked for"
    assert collapses(good, *[decode(float("nan"))] * 5)


@pytest.mark.parametrize("phase", ["trial", "promoted"])
def test_a_text_that_no_drafter_foresees_is_no_collapse(phase: str) -> None:
    cold = [NGRAM, *requests(30, 1.0)]
    one_odd_text = [NGRAM, *requests(4, 3.1), *requests(1, 1.0, lines=90), *requests(4, 3.1)]
    another_workload = [NGRAM, *requests(9, 3.1), *requests(4, 1.0), *requests(1, 1.4), *requests(4, 1.03)]
    odd_after_idle = [*requests(9, 4.5), decode(1.0, running=0), *requests(1, 1.0, lines=40)]
    two_odd_together = [*requests(9, 4.5), prefill(2), *[decode(1.0, 2)] * 40]
    starts_anew = [NGRAM, *requests(9, 3.1), NGRAM, *requests(30, 1.0)]
    quoted = said("Receive: obj=GenerateReqInput(rid='1', text='Decode batch, #running-req: 3, accept len: 1.00')")
    for history in (cold, one_odd_text, another_workload, odd_after_idle, two_odd_together, starts_anew, [quoted] * 9):
        assert collapses(*history, phase=phase) == []


@pytest.mark.parametrize("phase", ["trial", "promoted"])
def test_a_collapse_that_every_request_shows_is_found_once(phase: str) -> None:
    at_concurrency_1 = [*requests(5, 1.0)]
    under_load = [*requests(3, 4.5), prefill(4), *[decode(1.0, 4)] * 30]
    copied = [NGRAM, *requests(3, 3.1), *requests(30, 1.0)]
    one_rank = [line for _ in range(9) for rank in ("DP0 TP0", "DP1 TP1")
                for line in (prefill(1, rank), decode(1.0 if "DP1" in rank else 3.0, 1, rank=rank))]  # fmt: skip
    assert collapses(*at_concurrency_1, phase=phase) == [
        "accept len 1.00 on 11 decode lines in a row of 3 requests at a low batch, it never was above"
    ]
    for history in (under_load, copied, one_rank):
        assert len(collapses(*history, phase=phase)) == 1


def test_a_collapse_takes_a_trial_down_and_pages_after_promotion() -> None:
    """It may be slow and right: after promotion the answers decide."""
    for phase, action in (("trial", "rollback"), ("promoted", "page")):
        detector = Detector(phase)
        changes = [change for line in requests(5, 1.0) for change in detector.feed(line)]
        assert kinds(changes) == [("opened", "accept-collapse", action)]
