"""What a release of RocketMQ does, said once: no file is opened here.

1. `release` orders releases, reads how people and files name one, and says who wrote a store.
2. `traces` has what a release leaves in a store that others do not.
3. `names` has the topics that brokers make for themselves, and prefixes.
4. `rules` is the table of what releases do differently: a rule is asked for by its name.
5. `dispatch` says of one record which queue units and index entries it gets.
"""
