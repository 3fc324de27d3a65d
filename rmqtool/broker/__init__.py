"""What a release of RocketMQ does, said once: no file is opened here.

1. `release` orders releases, reads how people and files name one, and says who wrote a store.
"""
