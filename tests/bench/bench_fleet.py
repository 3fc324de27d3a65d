"""A fleet of many small stores: planning, its memory, and what is the same as one by one.

    python -m tests.bench.bench_fleet [--stores 1000] [--segments 40] [--validate 0]
    python -m tests.bench.bench_fleet --cluster [--bucket] [--stores 1000] [--segments 40]

One small store is built and linked many times (hard links, in /dev/shm). Each figure is that of a
process of its own: the largest resident set counts all of it, from the start of Python. Spark's
partitions are what its driver would get: tasks, put together and pickled. `--validate N` also
validates N of the stores, one by one and as a fleet, and compares rows and findings.
Every third store is damaged, in one of a dozen ways; one of them has no log at all.
`--cluster` validates all of them on a standalone cluster of two workers, kills an executor
meanwhile, and compares rows and findings with those of one by one. Then it exports all stores
there, kills the driver when some parts are done, runs the same again, and compares the files, byte
by byte, with those of an export by this machine alone. With `--bucket` the
stores lie in a bucket of an S3 server (moto's), and what is exported does not. On two cores that
others use, too, 60 stores take some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rmqtool.errors import StoreError
from rmqtool.findings.finding import Finding
from rmqtool.reads.export import DAMAGED, PLAN, SUCCESS
from tests import inflict
from tests.bench.store_builder import Builder, Spec

MOST_SECONDS: Final = 10.0
MOST_BYTES: Final = 1 << 30
SEGMENT_BYTES: Final = 64 << 10
ENTRIES_A_SEGMENT: Final = 300
QUEUE_FILE_BYTES: Final = (
    20_000  # of the usual 6 MB, a fleet in a bucket would send gigabytes of zeros
)
DAMAGED_EVERY: Final = 3
DAMAGES: Final = (
    inflict.flip_field("body_crc"),
    inflict.zero_sector(),
    inflict.garbage(),
    inflict.cut_segment(1, lambda size: size // 2),
    inflict.remove_segment(1),
    inflict.remove("consumequeue/*/0"),
    inflict.resize_file("consumequeue/*/1/*", lambda size: size // 3),
    inflict.resize_file("index/*", lambda size: size // 2),
    inflict.put_file("abort"),
    inflict.remove("checkpoint"),
    inflict.edit_text("config/topics.json", lambda text: text[: len(text) // 2]),
    inflict.remove_log,
)
MUST_HOLD: Final = (
    "killed_executor",
    "same_verdicts",
    "same_findings",
    "killed_driver",
    "resumed",
    "same_files",
    "same_end",
)
KILL_AFTER: Final = 4.0  # seconds: Python workers have begun by then
SOME_PARTS: Final = 3
PARTS: Final = 13  # of the export: what a task reads follows from it


def build(top: Path, stores: int, segments: int) -> None:
    """Make the fleet: one store, and links to its files."""
    spec = Spec(
        total_bytes=segments * SEGMENT_BYTES,
        topics=2,
        queues=2,
        segment_bytes=SEGMENT_BYTES,
        slots=100,
        entries=segments * ENTRIES_A_SEGMENT,
        queue_file_bytes=QUEUE_FILE_BYTES,
    )
    first = top / "broker-0000" / "store"
    first.parent.mkdir()
    Builder(first, spec).build()
    for number in range(1, stores):
        shutil.copytree(first, top / f"broker-{number:04}" / "store", copy_function=os.link)


def damage(top: Path) -> None:
    """Damage some stores, each in the next one of the ways that there are."""
    for number, store in enumerate(sorted(top.glob("*/store"))[::DAMAGED_EVERY]):
        linked = store.rename(store.with_name("linked"))
        shutil.copytree(linked, store)  # files of its own
        shutil.rmtree(linked)
        DAMAGES[number % len(DAMAGES)](store)


def planned(top: Path) -> dict[str, Any]:
    """Plan the read of a table of all stores."""
    import pickle

    from rmqtool.reads.fleet import tasks
    from rmqtool.reads.options import SourceOptions
    from rmqtool.reads.plan import packs

    began, used = time.perf_counter(), time.process_time()
    options = SourceOptions.of({"path": f"{top}/*/store"})
    found = tasks(options)
    packed = [pickle.dumps(one) for one in packs(found, options)]
    return {
        "segments": len(found),
        "partitions": len(packed),
        "pickled": sum(map(len, packed)),
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - used,
    }


def compared(top: Path, count: int) -> dict[str, Any]:
    """Validate some stores as a fleet and one by one."""
    from rmqtool.check.many import Stores
    from rmqtool.check.options import ValidateOptions

    pattern = [str(path) for path in sorted(top.glob("*/store"))[:count]]
    began = time.perf_counter()
    stores = Stores(ValidateOptions(""), pattern)
    verdicts = list(stores.verdicts(lambda *_: None, keeps_findings=True))
    fleet = time.perf_counter() - began
    began = time.perf_counter()
    alone = [found_in(one) for one in pattern]
    return {
        "stores": len(verdicts),
        "damaged": sum(verdict.row["verdict"] == "damaged" for verdict in verdicts),
        "same": alone == [verdict.findings for verdict in verdicts],
        "fleet_seconds": fleet,
        "alone_seconds": time.perf_counter() - began,
    }


def executors(directory: Path) -> list[int]:
    """Give the processes of executors that workers in a directory have started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = str((place / "cwd").readlink()).startswith(f"{directory}/")
            if is_ours and b"CoarseGrainedExecutorBackend" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue  # it has ended
    return found


def found_in(store: str) -> tuple[Finding, ...]:
    """Give the findings of a store; none where it cannot be opened."""
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.validate import validate

    try:
        return tuple(validate(ValidateOptions(store)))
    except StoreError:
        return ()


def on_cluster(top: Path, count: int, has_bucket: int = 0) -> dict[str, Any]:
    """Validate and export on a cluster that loses an executor, then its driver.

    Args:
        top: directory of the fleet.
        count: of its stores.
        has_bucket: 1 puts them into a bucket of an S3 server first, and reads them there.
    """
    from rmqtool.check.many import Stores
    from rmqtool.check.options import ValidateOptions
    from rmqtool.store.fleet import FleetStore
    from tests.spark.cluster import cluster, environment
    from tests.spark.test_export import content

    given = [str(path) for path in sorted(top.glob("*/store"))[:count]]
    logs = (log for one in given for log in Path(one, "commitlog").iterdir())
    part = max(sum(log.stat().st_size for log in logs) // PARTS, SEGMENT_BYTES)
    if has_bucket:
        from tests.s3_server import in_bucket, s3_server

        s3_server().put(top, "fleet")
        given = [in_bucket(f"fleet/{Path(one).relative_to(top)}") for one in given]
    began = time.perf_counter()
    listed, written, out, here = (top / one for one in ("stores", "findings.jsonl", "out", "here"))
    listed.write_text("\n".join(given))
    alone = [(FleetStore(one).name, str(finding.code), finding.path, finding.position)
             for one in given for finding in found_in(one)]  # fmt: skip
    verdicts = [
        verdict.row for verdict in Stores(ValidateOptions(""), given).verdicts(lambda *_: None)
    ]
    alone_seconds = time.perf_counter() - began
    rmqtool = [sys.executable, "-m", "rmqtool"]
    stores = ["--stores-file", str(listed), "--quiet", "--engine", "spark", "--master"]
    with cluster(top / "daemons") as master:
        stores.append(master)
        command = [*rmqtool, "validate", *stores, "--format", "jsonl", "--findings", str(written)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as job:  # noqa: S603
            while not (running := executors(top / "daemons")) and job.poll() is None:
                time.sleep(0.2)
            time.sleep(KILL_AFTER)
            is_killed = job.poll() is None and bool(running)
            if is_killed:
                os.kill(running[0], signal.SIGKILL)
            rows = [json.loads(line) for line in job.communicate()[0].splitlines()]
        findings = [json.loads(line) for line in written.read_text().splitlines()]
        how = ["--split", str(part), "--columns", "store,topic,size,code", "--output"]
        command = [*rmqtool, "export", *stores, *how, str(out)]
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())  # noqa: S603
        while driver.poll() is None and len(list(out.glob("_receipts/*"))) < SOME_PARTS:
            time.sleep(0.05)
        is_driver_killed = driver.poll() is None
        driver.kill()
        driver.wait()
        again = subprocess.run(command, capture_output=True, check=False, env=environment())  # noqa: S603
    local = [*rmqtool, "export", *stores[:3], "--engine", "local", *how, str(here)]
    expected = subprocess.run(local, capture_output=True, check=False, env=environment())  # noqa: S603
    exported, files = json.loads(again.stdout), content(out)
    wanted = content(here)
    for one in (files, wanted):
        for name in (SUCCESS, DAMAGED, PLAN):  # what was resumed, and where it lies
            one.pop(name, None)
    return {
        "stores": len(rows),
        "damaged": sum(row["verdict"] == "damaged" for row in rows),
        "bucket": bool(has_bucket),
        "alone_seconds": alone_seconds,
        "killed_executor": is_killed,
        "same_verdicts": verdicts == rows,
        "same_findings": alone
        == [
            (finding["store"], finding["code"], finding["path"], finding.get("position"))
            for finding in findings
        ],
        "findings": len(alone),
        "killed_driver": is_driver_killed,
        "resumed": exported["resumed"],
        "parts": exported["tasks"],
        "same_files": files == wanted,
        "same_end": again.returncode == expected.returncode,
        "exit": again.returncode,
        "rows": exported["rows"],
        "seconds": time.perf_counter() - began,
    }


def measured(step: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    """Run a step in a process of its own; give what it says, and its largest resident set."""
    program = (
        "import json, pathlib, sys\n"
        "from tests.bench import bench_fleet\n"
        f"found = bench_fleet.{step.__name__}(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))\n"
        "said = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(json.dumps(found | {'peak': int(said['VmHWM'].split()[0]) << 10}))\n"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    """Build, measure, compare with the bars, and clean up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--validate", type=int, default=0)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--bucket", action="store_true", help="with --cluster: the stores on S3")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmqtool-fleet-", dir="/dev/shm") as place:
        top = Path(place)
        build(top, asked.stores, asked.segments)
        plan = measured(planned, top)
        print(json.dumps(plan))  # noqa: T201
        is_met = plan["seconds"] < MOST_SECONDS and plan["peak"] < MOST_BYTES
        if asked.validate:
            damage(top)
            found = measured(compared, top, asked.validate)
            print(json.dumps(found))  # noqa: T201
            is_met = is_met and found["same"]
        if asked.cluster:
            damage(top)
            found = measured(on_cluster, top, asked.stores, int(asked.bucket))
            print(json.dumps(found))  # noqa: T201
            is_met = is_met and all(found[name] for name in MUST_HOLD)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
