"""Judge a broker.conf against a release and the files: BC-*.

What a broker makes of each key is in broker/conf.py; what it finds, in store/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.complaints import complaints
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_conf import BC_KEY, BC_LEN, BC_PATH
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.lengths import wrong_lengths
from rmqtool.store.root import configured_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding


def check(inspection: Inspection, conf: BrokerConf) -> Iterator[Finding]:
    """Say what a broker passes over, and where the configuration and the store do not agree.

    Nothing for a part of a store.
    """
    store = inspection.store
    if store.asked.kind is not ArtefactKind.STORE:
        return
    at = At(conf.path)
    for slip in complaints(conf, inspection.scope.version):
        severity = Severity.NOTE if slip.is_note else None
        actual = f"{slip.key}={slip.value}"
        yield finding(BC_KEY, at, str(slip), actual=actual, severity=severity)
    for wrong in wrong_lengths(store, inspection.scope.version):
        expected, actual = f"{wrong.key}={wrong.on_disk}", f"{wrong.key}={wrong.configured}"
        remedy = f"set {expected}; do not change the files"
        yield finding(BC_LEN, at, str(wrong), expected=expected, actual=actual, remedy=remedy)
    kind = ArtefactKind.DLEDGER if store.is_dledger else ArtefactKind.COMMITLOG
    for log in configured_logs(store.root, conf):
        if log.place is not None or log.kind is not kind:
            continue
        if not log.path.startswith("/") and store.root.child(log.path).stat() is not None:
            continue  # a link that leads nowhere, say: not the key's fault
        line = conf.lines.get(log.key, 0)
        message = f"line {line}: {log.key}: {log.path} is not there"
        severity = Severity.DAMAGE if log.is_ours else Severity.NOTE
        actual = "no such directory"
        yield finding(BC_PATH, at, message, expected=log.path, actual=actual, severity=severity)
