package handlers

import "highwater/replication/group"

// partitionForKey is where Kafka's default partitioner puts a key: the hash with
// its sign bit cleared (toPositive), modulo the number of partitions.
func partitionForKey(key []byte, partitions int32) int32 {
	return int32(group.Murmur2(key)&0x7fffffff) % partitions
}
