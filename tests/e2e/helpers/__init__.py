"""What end-to-end tests share: time limits, networks of brokers in this process or in others, and links that fail.

running     run a coroutine with a time limit; wait for a condition
network     several brokers in one process, over real sockets, with their links
nursery     brokers as processes, forked from one that has everything compiled
proxy       a TCP proxy that cuts, stalls, slows, half-closes or corrupts what passes
promises    what must have been delivered, and what must not, judged from outside
faulty      processes with disks behind proxies, with clients that note what they are told
namespaces  brokers in network namespaces, between which packets are lost
"""
