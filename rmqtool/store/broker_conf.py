"""A broker's configuration file: where it is read, and which places it names.

What its keys mean is in broker/conf.py.
"""

from __future__ import annotations

import os
import re
from typing import Final

from rmqtool.broker.conf import ROOT, BrokerConf
from rmqtool.store.address import place_of
from rmqtool.store.place import Place

LARGEST_CONF: Final = 1 << 20
# Brokers know those of the log; the others stand in many a broker.conf, and say what is meant.
NAMES_A_PLACE: Final = re.compile(
    r"storePath\w+|readOnlyCommitLogStorePaths|storeCheckpoint|abortFile"
)


def places_elsewhere(root: Place, broker_conf: str | BrokerConf | None) -> tuple[str, ...]:
    """Give what a configuration places outside of a store root: the only places written there.

    Names below the root, the broker's own or the one at hand, are none: what lies below it may be
    a link that the owner of the store has made.

    Returns:
        Absolute paths without links.

    Raises:
        UnreadablePath: the configuration cannot be read.
    """
    if broker_conf is None:
        return ()
    conf = broker_conf if isinstance(broker_conf, BrokerConf) else read_broker_conf(broker_conf)
    roots = {root.location, conf.text(ROOT.name) or root.location}
    roots |= {os.path.realpath(root) for root in roots}
    places = []
    for key in filter(NAMES_A_PLACE.fullmatch, conf.values):
        from pathlib import PurePath  # takes as long to load as the rest of this module

        for path in map(PurePath, conf.paths(key)):
            above = {str(parent) for parent in (path, *path.parents)}
            above |= {os.path.realpath(place) for place in above}
            place = os.path.realpath(path)
            if path.is_absolute() and ".." not in path.parts and place != "/":
                places += [] if above & roots else [place]
    return tuple(dict.fromkeys(places))


def read_broker_conf(path: str | os.PathLike[str] | Place) -> BrokerConf:
    """Read a broker.conf. Raises UnreadablePath: it cannot be read."""
    place = path if isinstance(path, Place) else place_of(path)
    return BrokerConf.parse(str(place), place.read(LARGEST_CONF))
