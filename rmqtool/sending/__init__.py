"""Send the messages of a file into a running cluster.

1. `entries` reads the file: JSON lines or records (`.rmq`). Each message becomes an `Outgoing`.
2. `outgoing` says what of a message goes along, where it goes to, and why one cannot be sent.
3. `routes` asks a name server where topics are, and says which queue a message goes to.
4. `remoting` speaks the protocol, with bounds on what a peer may answer; `producer` sends with it,
   and `pipeline` has a message of each queue on its way.
5. `sending` puts it together: the file is checked whole, then its messages are sent. The ledger
   (`writing/ledger.py`) keeps what was sent.
6. `report` tells of it.

This room alone opens connections to brokers and name servers.
"""
