"""What a release of RocketMQ does, said once: no file is opened here.

1. `release` orders releases, reads how people and files name one, and says who wrote a store.
2. `traces` has what a release leaves in a store that others do not.
3. `names` has the topics that brokers make for themselves, and prefixes.
"""
