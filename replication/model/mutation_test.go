package model

import (
	"testing"

	"highwater/replication/replica"
)

// TestMutations shows that the model is strong enough: with any one of the rules
// left out it finds a violation, by what that does to records and not by looking
// at the rule.
func TestMutations(t *testing.T) {
	for name, mutation := range map[string]replica.Mutation{
		"R16": replica.NoR16, "R19": replica.NoR19, "R20": replica.NoR20, "R26": replica.NoR26, "R26 of a smaller ISR": replica.NoR26Shrink,
		"R42 high watermark": replica.NoR42HighWatermark, "R42 leader epoch start": replica.NoR42LeaderEpochStart,
		"R42 fetched in this epoch": replica.NoR42FetchedInEpoch, "R42 broker epoch": replica.NoR42BrokerEpoch,
		"R44": replica.NoR44, "R45": replica.NoR45, "R73": replica.NoR73,
	} {
		t.Run(name, func(t *testing.T) {
			seeds := envNumber(t, "HIGHWATER_MODEL_MUTATION_SEEDS", 10000)
			for seed := range seeds {
				if _, found := run(seed, func(cfg *config) {
					cfg.mutation = mutation
					if mutation == replica.NoR42BrokerEpoch { // needs restarts quicker than a lag is noticed
						cfg.tick, cfg.minInSync, cfg.faults = 2, 2, 10
					}
					if mutation == replica.NoR16 || mutation == replica.NoR20 {
						// They need leaders that change more quickly than messages arrive, and little else.
						cfg.brokers = 3 + int(seed%2)
						cfg.factor, cfg.partitions, cfg.minInSync, cfg.steps = cfg.brokers, 1, 2, 2000
						cfg.churn, cfg.slow, cfg.patience, cfg.faults = 10, 50+int(seed%3)*50, 1000, 1
						cfg.unclean, cfg.reassign, cfg.minChanges, cfg.durable = false, false, false, true
					}
				}, false); found != nil {
					t.Logf("seed %d: %s", seed, found.text)
					return
				}
			}
			t.Errorf("%d seeds without the rule, and nothing was wrong: the model is too weak", seeds)
		})
	}
}
