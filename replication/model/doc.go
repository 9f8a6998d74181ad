// Package model tests the rules of replication and the controller's state machine
// against each other, without a process, a disk or a network: brokers with logs in
// memory, whose messages lie in a bag that a seed delivers, drops, repeats and
// delays, while it crashes brokers, wipes their disks, fences them and moves
// leaderships. After every step the invariants V1-V3, V9, V18-V26 and V31 are
// checked (checker_test.go says how).
//
// It drives exactly the code that brokers run: replica.Leader, replica.Decide,
// replica.Sessions and controller.State. What it has of its own is the glue that
// package replication has around them.
//
//	go test ./replication/model                                   a few hundred seeds
//	HIGHWATER_MODEL_SEEDS=20000 go test ./replication/model -run TestModel
//	HIGHWATER_MODEL_SEED=17 go test ./replication/model -run TestModel   one, with its trace
package model
