"""Which extensions of consume queues a starting broker loads, and how it makes further ones.

See ConsumeQueue#load, CommitLogDispatcherCalcBitMap, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.config_names import FILTERS_JSON
from rmqtool.formats.config_shapes import consumer_filters
from rmqtool.startup.extension import DIRECTORY, ExtensionRules
from rmqtool.startup.load import exists
from rmqtool.startup.settings import lengths_of

if TYPE_CHECKING:
    from rmqtool.startup.model import Model
    from rmqtool.store.tree import Store

_BITS: Final = 8


def load_extensions(store: Store, model: Model) -> None:
    """Load the extensions of all queues; without a broker.conf their directory tells of them.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    place = store.root.child(DIRECTORY)
    if not (model.settings.has_ext or (store.broker_conf is None and exists(place))):
        return
    length = lengths_of(store, model.rules.version).consume_queue_ext.value
    model.extension_rules = rules = ExtensionRules(length, _bit_map_sizes(store, model))
    model.take_out(model.plain.left)
    for (topic, queue_id), queue in model.queues.items():
        queue.extension = extension = rules.new(topic, queue_id)
        below = place.child(topic).child(str(queue_id))
        extension.files = model.loader.load([(below, extension.files.path)], length)


def _bit_map_sizes(store: Store, model: Model) -> dict[str, int]:
    """Source: CommitLogDispatcherCalcBitMap."""
    if not model.settings.calculates_bit_maps:
        return {}
    filters = consumer_filters(store.config(FILTERS_JSON).document)
    return {
        consumer_filter.topic: -(-(consumer_filter.bit_count or 0) // _BITS)
        for consumer_filter in filters
    }
