// Package sim runs whole clusters in one process and in simulated time: brokers
// with their stores, their members of the metadata quorum and their HTTP, on file
// systems in memory and over a network of pipes. A seed decides what goes wrong:
// crashes that lose or tear what wasn't fsynced, cut and slow links, slow, full and
// broken disks, stops in order. Clients append and read all the while; what they
// were told, and what the brokers say of themselves, is checked against V1-V5, V8,
// V9, V11, V15, V17, V18, V21, V23, V24 and V29.
//
//	go test ./replication/sim                                        a few seeds
//	HIGHWATER_SIM_SEEDS=2000 go test ./replication/sim -timeout 0    from HIGHWATER_SIM_FIRST on
//	HIGHWATER_SIM_SEED=17 go test ./replication/sim -v               one, with its log
//
// Time and faults are the seed's; the order in which goroutines run isn't. A seed
// that failed may pass the next time: HIGHWATER_SIM_REPEAT=100 runs it that often.
package sim
