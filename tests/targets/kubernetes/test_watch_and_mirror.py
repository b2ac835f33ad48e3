"""The cluster is asked seldom, and what pods print is kept once, line by line."""

from __future__ import annotations

from pathlib import Path

from fake_cluster import FakeCluster, ended

from trainwright.runs.folder import RunFolder
from trainwright.targets.kubernetes import mirror
from trainwright.targets.kubernetes.look import attempt_of
from trainwright.targets.kubernetes.outcome import forwards
from trainwright.targets.kubernetes.pod_view import pod_view
from trainwright.targets.kubernetes.watch import Wanted, Watch

RUN = "demo-00000001"
WANTED = Wanted(RUN, (("batch/v1", "Job", RUN),))


class Clock:
    """A clock that a test moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nobody_asks_again_before_the_interval_and_it_grows_while_nothing_happens() -> None:
    cluster, clock = FakeCluster(), Clock()
    watch = Watch(cluster, clock)
    cluster.put({"kind": "Job", "metadata": {"name": RUN, "labels": {"trainwright.dev/run": RUN}}})
    cluster.pod(RUN, "p")
    watch.look([WANTED])
    asked = watch.queries
    watch.look([WANTED])
    assert watch.queries == asked
    times = []
    for _ in range(60):
        clock.now += 1.0
        before = watch.queries
        watch.look([WANTED])
        times += [clock.now] if watch.queries > before else []
    assert len(times) < 12
    assert times[-1] - times[-2] > times[1] - times[0]


def test_events_are_read_only_while_something_does_not_simply_run() -> None:
    cluster, clock = FakeCluster(), Clock()
    watch = Watch(cluster, clock)
    cluster.put({"kind": "Job", "metadata": {"name": RUN, "labels": {"trainwright.dev/run": RUN}}})
    watch.look([WANTED])
    assert "list Event" in cluster.asked
    cluster.asked.clear()
    cluster.pod(RUN, "p")
    clock.now += 60
    watch.look([WANTED])
    assert "list Event" not in cluster.asked


def test_a_run_is_not_told_the_events_of_another_whose_name_begins_as_its_own() -> None:
    cluster = FakeCluster()
    watch = Watch(cluster, Clock())
    cluster.event("Pod", f"{RUN}-2-0-abcde", "FailedScheduling", "other")
    cluster.event("Pod", f"{RUN}-0-abcde", "FailedScheduling", "own")
    found = watch.look([WANTED, Wanted(f"{RUN}-2", (("batch/v1", "Job", f"{RUN}-2"),))])
    assert [one.message for one in found[RUN].events] == ["own"]
    assert [one.message for one in found[f"{RUN}-2"].events] == ["other"]


def test_lines_are_kept_once_and_go_to_their_rank(tmp_path: Path) -> None:
    cluster, run = FakeCluster(), RunFolder(tmp_path / RUN)
    run.root.mkdir()
    pod = pod_view(cluster.pod(RUN, "p", index=1))
    cluster.printed["p"] = b"2026-12-01T10:00:01Z [rank 9] a\n2026-12-01T10:00:01.25Z b\n"
    mirror.pull_logs(cluster, run, [pod], 2, only_ended=False)
    cluster.printed["p"] += b"2026-12-01T10:00:01.3Z [rank 9] c\n"  # the server repeats the second it was asked from
    mirror.pull_logs(cluster, run, [pod], 2, only_ended=False)
    mirror.pull_logs(cluster, run, [pod], 2, only_ended=False)
    assert run.rank_log(2, 9).read_text() == "a\nc\n"
    assert run.stage_log(2, "train-1").read_text() == "b\n"


def test_a_log_that_the_pod_writes_itself_is_left_alone(tmp_path: Path) -> None:
    cluster, run = FakeCluster(), RunFolder(tmp_path / RUN)
    run.rank_log(1, 0).parent.mkdir(parents=True)
    run.rank_log(1, 0).write_text("written by the rank\n")
    cluster.printed["p"] = b"2026-12-01T10:00:01Z [rank 0] a\n"
    mirror.pull_logs(cluster, run, [pod_view(cluster.pod(RUN, "p"))], 1, only_ended=False)
    assert run.rank_log(1, 0).read_text() == "written by the rank\n"


def test_pods_that_are_gone_are_remembered(tmp_path: Path) -> None:
    cluster, run = FakeCluster(), RunFolder(tmp_path / RUN)
    run.root.mkdir()
    first = pod_view(cluster.pod(RUN, "a", status=ended(137, "OOMKilled")))
    second = pod_view(cluster.pod(RUN, "b"))
    mirror.remember(run, [first], 1.0)
    found = mirror.remember(run, [second], 2.0)
    assert [(pod.name, pod.gone) for pod in found] == [("a", True), ("b", False)]
    assert found[0].ended[0].reason == "OOMKilled"
    assert mirror.read_pods(run)["uid-a"] == found[0]


def test_an_attempt_is_counted_when_a_pod_takes_the_place_of_another_and_not_when_pods_just_end() -> None:
    cluster = FakeCluster()
    first = pod_view(cluster.pod(RUN, "a", status=ended(70)))
    other = pod_view(cluster.pod(RUN, "b", index=1, status=ended(143)))
    finish = pod_view(cluster.pod(RUN, "c", stage="finish"))
    assert attempt_of(1, [first, other, finish], 0) == 1
    again = pod_view(cluster.pod(RUN, "d"))
    assert attempt_of(1, [first, other, again], 0) == 2
    assert attempt_of(3, [again], 2) == 5
    launcher = cluster.pod(RUN, "l")
    launcher["metadata"]["labels"]["training.kubeflow.org/replica-type"] = "launcher"
    assert attempt_of(1, [first, pod_view(launcher)], 0) == 1


def test_what_is_told_about_the_nodes_of_a_run_is_found_where_it_is_kept() -> None:
    cluster = FakeCluster()
    watch = Watch(cluster, Clock())
    cluster.pod(RUN, "p", phase="Pending")
    cluster.event("Node", "n1", "NodeNotReady", "Node is not ready")
    cluster.event("Node", "n2", "NodeNotReady", "of somebody else")
    cluster.event("NodeClaim", "gpu-1", "Launched", "not nominated for us")
    assert [one.message for one in watch.look([WANTED])[RUN].events] == ["Node is not ready"]


def test_of_pods_that_run_only_the_first_node_is_read_for_the_step(tmp_path: Path) -> None:
    cluster, run = FakeCluster(), RunFolder(tmp_path / RUN)
    run.root.mkdir()
    pods = [pod_view(cluster.pod(RUN, name, index=index)) for index, name in enumerate(("a", "b"))]
    for rank, name in enumerate(("a", "b")):
        cluster.printed[name] = f"2026-12-01T10:00:01Z [rank {rank}] step\n".encode()
    mirror.pull_logs(cluster, run, pods, 1, only_ended=True, first=True)
    assert run.rank_log(1, 0).read_text() == "step\n"
    assert not run.rank_log(1, 1).exists()


def test_the_ray_of_a_run_is_reached_by_a_forwarded_port() -> None:
    status = {"rayClusterStatus": {"head": {"serviceName": "demo-x-head-svc"}}}
    job = {"kind": "RayJob", "metadata": {"name": "demo", "namespace": "ml"}, "status": status}
    assert "kubectl -n ml port-forward service/demo-x-head-svc 8265:8265" in forwards(job)[0]
    assert forwards({**job, "status": {}}) == []
    assert forwards({**job, "kind": "Job"}) == []
